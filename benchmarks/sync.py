"""How much faster are two workers than one process?

    LAMINAR_DATA=… python benchmarks/sync.py [--rounds 3] [--epochs 5] [--cases mlp-256,mlp-1024,cnn-256] [--gloo] [--one-core]

`laminar build` of one layer on Fashion-MNIST with Adam, by one process on one thread and by `--strategy sync --workers 2`, in turns. A
figure is the samples/s of an epoch of training, testing left out, as the run's own events tell it: the median over the epochs but the
first, and over the rounds. The limit on two cores is 2.0. `--gloo` adds two workers that meet over torch.distributed on the loopback
device instead of in shared memory, as they would on two machines, against the same one process. One process gathers its next batches on
another thread, so it has most of a core besides; `--one-core` adds it bound to a single core, as each worker has one to itself.
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


def samples_per_second(case: str, epochs: int, *words: str, before: tuple[str, ...] = ()) -> float:
    kind, _, batch = case.partition("-")
    model, args = MODELS[kind]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(STACK.format(model=model, args=args, epochs=epochs, batch=batch))
        subprocess.run([*before, sys.executable, "-m", "laminar", "build", "-q", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        rates = [event["samples_per_second"] for event in read(events) if event["event"] == "epoch"]
    return statistics.median(rates[1:] or rates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--cases", default="mlp-256,mlp-1024,cnn-256")
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--one-core", action="store_true")
    args = parser.parse_args()
    print(f"{'case':10}{'against':16}{'one process':>14}{'two workers':>14}{'ratio':>8}{'worst':>8}{'best':>8}")
    for case in args.cases.split(","):
        found: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for name, rate in one_round(case, args).items():
                found.setdefault(name, []).append(rate)
        peers = {"one process": ("one process", "two workers")}
        if args.one_core:
            peers["on one core"] = ("on one core", "two workers")
        if args.gloo:
            peers["over gloo"] = ("one process", "over gloo")
        for name, (below, above) in peers.items():
            ratios = sorted(two / one for one, two in zip(found[below], found[above], strict=True))
            one, two = statistics.median(found[below]), statistics.median(found[above])
            print(
                f"{case:10}{name:16}{one:>14,.0f}{two:>14,.0f}{statistics.median(ratios):>8.2f}{ratios[0]:>8.2f}{ratios[-1]:>8.2f}",
                flush=True,
            )


def one_round(case: str, args: argparse.Namespace) -> dict[str, float]:
    rates = {
        "one process": samples_per_second(case, args.epochs),
        "two workers": samples_per_second(case, args.epochs, "--strategy", "sync", "--workers", "2"),
    }
    if args.one_core:
        rates["on one core"] = samples_per_second(case, args.epochs, before=("taskset", "-c", "0"))
    if args.gloo:
        rates["over gloo"] = samples_per_second(case, args.epochs, "--strategy", "sync:link=gloo", "--workers", "2")
    return rates


if __name__ == "__main__":
    main()
