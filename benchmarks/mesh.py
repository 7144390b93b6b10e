"""How much faster are two workers that share a wide model than one process?

    LAMINAR_DATA=… python benchmarks/mesh.py [--rounds 3] [--epochs 3] [--width 2048] [--batch 64] [--memory]

`laminar build` of an MLP of three hidden layers of 2048 on 6,400 samples of Fashion-MNIST with sgd, by one process on one thread and by a
mesh of two workers, `hidden` split, in turns. A figure is samples/s of an epoch of training, as the run's events tell it: the median over
the epochs but the first. The limit is 2.0. Wanted: 1.5.
`--memory`: instead, the most memory that a worker has at any time (VmHWM) against one process, for 500 MB of weights (width 8192).
Wanted: 0.6.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import record
from one_build import STACK, Told

from laminar.core.events import read

MESH = 'mesh:mesh={ cols = 2 },split={ hidden = "cols" }'


def built(width: int, hidden: int, batch: int, epochs: int, samples: int, *words: str) -> tuple[Told, dict[int, int]]:
    """What the run told, and the most bytes that each process had while it ran."""
    train = f'epochs = {epochs}, batch = {batch}, optimizer = "sgd", lr = 0.01, seed = 0, threads = 1'
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = STACK.format(source="fashion-mnist", model="laminar:mlp", args=f"{{ hidden = {[width] * hidden} }}", train=train)
        (folder / "laminar.toml").write_text(text.replace('source = "fashion-mnist"', f'source = "fashion-mnist"\nlimit = {samples}'))
        return run_build(folder, *words)


def run_build(folder: Path, *words: str) -> tuple[Told, dict[int, int]]:
    """What the run of a project told, and the most bytes that each process had while it ran."""
    process = subprocess.Popen([sys.executable, "-m", "laminar", "build", "-q", *words], cwd=folder, stdout=subprocess.DEVNULL)
    most: dict[int, int] = {}
    while process.poll() is None:
        for pid in [process.pid, *_children(process.pid)]:
            most[pid] = max(most.get(pid, 0), _peak(pid))
        time.sleep(0.05)
    assert process.returncode == 0, "the build failed"
    (events,) = folder.glob(".laminar/runs/*/events.jsonl")
    return Told(list(read(events))), most


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    if args.memory:
        _, one_most = built(8192, 2, 64, 1, 640, "--strategy", "solo")
        told, two_most = built(8192, 2, 64, 1, 640, "--strategy", MESH)
        alone = max(one_most.values())
        workers = [two_most[event["pid"]] for event in told.all("worker")]
        print(
            f"one process {alone / 1e6:,.0f} MB, workers {', '.join(f'{one / 1e6:,.0f}' for one in workers)} MB: {max(workers) / alone:.2f}"
        )
        return
    ratios = []
    for _ in range(args.rounds):
        rates = [built(args.width, 3, args.batch, args.epochs, 6400, "--strategy", how)[0].samples_per_second for how in ("solo", MESH)]
        record("one process", rates[0])
        record("mesh of two workers", rates[1])
        ratios.append(rates[1] / rates[0])
        print(f"one process {rates[0]:,.0f} samples/s, two workers {rates[1]:,.0f}: {ratios[-1]:.2f}x")
    print(f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
