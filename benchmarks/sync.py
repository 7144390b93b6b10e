"""How much faster are two workers than one process?

    LAMINAR_DATA=… python benchmarks/sync.py [--rounds 3] [--epochs 5] [--cases mlp-256,mlp-1024,cnn-256] [--gloo]

`laminar build` of one layer on Fashion-MNIST with Adam, by one process on one thread and by `--strategy sync --workers 2`, in turns. A
figure is the samples/s of an epoch of training, testing left out, as the run's own events tell it: the median over the epochs but the
first, and over the rounds. The limit on two cores is 2.0. `--gloo` adds two workers that meet over torch.distributed on the loopback
device instead of in shared memory, as they would on two machines, against the same one process.
Wanted: 1.4 (mlp, batch 256), 1.75 (mlp, batch 1024), 1.85 (cnn, batch 256).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from laminar.core.events import read

STACK = """\
[stack]
name = "bench"

[data.garments]
source = "fashion-mnist"

[[layer]]
name = "base"
model = "{model}"
args = {args}
data = "garments"
train = {{ epochs = {epochs}, batch = {batch}, lr = 0.001, seed = 0, threads = 1 }}
"""
MODELS = {
    "mlp": ("laminar:mlp", "{ hidden = [128] }"),
    "cnn": ("laminar:convnet", "{ channels = [16, 32], norm = false }"),
}


def samples_per_second(case: str, epochs: int, *words: str) -> float:
    kind, _, batch = case.partition("-")
    model, args = MODELS[kind]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(STACK.format(model=model, args=args, epochs=epochs, batch=batch))
        subprocess.run([sys.executable, "-m", "laminar", "build", "-q", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        rates = [event["samples_per_second"] for event in read(events) if event["event"] == "epoch"]
    return statistics.median(rates[1:] or rates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--cases", default="mlp-256,mlp-1024,cnn-256")
    parser.add_argument("--gloo", action="store_true")
    args = parser.parse_args()
    ways = [[], ["--strategy", "sync", "--workers", "2"], *([["--strategy", "sync:link=gloo", "--workers", "2"]] if args.gloo else [])]
    print(f"{'case':10}{'one process':>14}{'two workers':>14}{'ratio':>8}{'worst':>8}{'best':>8}{'gloo':>8}")
    for case in args.cases.split(","):
        rounds = [[samples_per_second(case, args.epochs, *words) for words in ways] for _ in range(args.rounds)]
        ratios = sorted(two / one for one, two, *_ in rounds)
        one, two = (statistics.median(side) for side in list(zip(*rounds, strict=True))[:2])
        gloo = f"{statistics.median(over / one for one, _, over in rounds):8.2f}" if args.gloo else f"{'-':>8}"
        print(f"{case:10}{one:>14,.0f}{two:>14,.0f}{statistics.median(ratios):>8.2f}{ratios[0]:>8.2f}{ratios[-1]:>8.2f}{gloo}", flush=True)


if __name__ == "__main__":
    main()
