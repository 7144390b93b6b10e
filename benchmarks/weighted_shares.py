"""Two sync workers, one of which has half a core: shares by measured speed against equal ones.

    LAMINAR_DATA=… python benchmarks/weighted_shares.py [--rounds 5] [--epochs 4] [--batch 256] [--gloo] [--waiting]     Linux, two cores

The small CNN of sync.py on 15,360 samples of Fashion-MNIST. Each worker is bound to a core of its own, and the second is stopped for 5 of
every 10 ms. Equal and measured shares take turns. A figure is steps/s of the training epochs but the first, as the run's own events tell
it. All wait for the slow worker's half of a batch where shares are equal, and for its third where they fit: the limit is 1.5.
`--waiting`: a small model waits for 0.5 ms a row, 1 ms in the second worker, instead of computing, which other work on the machine does not
disturb as much.
Wanted: 1.3.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from one_build import MODELS, STACK, Told

from laminar.core.events import read

WAITING = """
import os, time
from torch import Tensor, nn

ROW = 0.0005 * float(os.environ.get("BENCH_SLOWER", "1"))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            time.sleep(ROW * len(x))
        return self.layers(x)


def net() -> nn.Module:
    return Net()
"""
STOPS = """
import os, signal, sys, time
os.closerange(3, 1024)  # the worker's pipe is not ours: whoever listens at its end is to hear when the worker ends
try:
    while True:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(int(sys.argv[1]), number)
            time.sleep(0.005)
except ProcessLookupError:
    pass
"""
HALF = ["sh", "-c", f'{sys.executable} -c {shlex.quote(STOPS)} $$ < /dev/null & exec "$@"', "sh"]  # before the words of a command
OURS = """
import sys
from laminar.parallel.crew import Crew
Crew.before = staticmethod(lambda role, rank: {before}[rank] if role == "worker" else [])
from laminar.cli import main
sys.argv = ["laminar", "build", "-q"]
main()
"""


def trained(before: list[list[str]], model: tuple[str, str], batch: int, epochs: int, strategy: str) -> Told:
    kind = f'{{ kind = "sync", workers = 2, {strategy} }}'
    train = f"epochs = {epochs}, batch = {batch}, lr = 0.001, seed = 0, threads = 1, strategy = {kind}"
    factory, args = model
    stack = STACK.replace('source = "{source}"', 'source = "{source}"\nlimit = 15360')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "laminar.toml").write_text(stack.format(model=factory, args=args, train=train, source="fashion-mnist"))
        (folder / "models.py").write_text(WAITING)
        subprocess.run([sys.executable, "-c", OURS.format(before=before)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        return Told(list(read(events)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--waiting", action="store_true")
    args = parser.parse_args()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("this needs two cores")
    link = 'link = "gloo"' if args.gloo else 'link = "memory"'
    ratios = []
    model = ("models:net", "{ }") if args.waiting else MODELS["cnn"]
    bound = ["taskset", "-c"]
    before = [[], ["env", "BENCH_SLOWER=2"]] if args.waiting else [[*bound, "0"], [*HALF, *bound, "1"]]
    for _ in range(args.rounds):
        told = [trained(before, model, args.batch, args.epochs, f'{link}, shares = "{kind}"') for kind in ("equal", "measured")]
        equal, measured = (one.samples_per_second / args.batch for one in told)
        shares = " ".join(f"{share:.2f}" for share in told[1].all("epoch")[-1]["shares"])
        print(f"equal {equal:.1f} steps/s, measured {measured:.1f} steps/s (shares {shares}): {measured / equal:.2f}x", flush=True)
        ratios.append(measured / equal)
    ratios.sort()
    print(f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
