"""What is left of two sync workers when a third, foreign process wants a core of two, too?

    LAMINAR_DATA=… python benchmarks/sync_beside.py [--rounds 3] [--epochs 12] [--cases mlp-256,mlp-1024,cnn-256] [--shares equal|measured]

The builds of sync.py with two workers, alone and beside a process that computes all the time, in turns. Three such processes share two
cores, so each has two thirds of one if the system is fair, and the workers could be two thirds as fast as alone; but they wait for each
other at each step, and a worker that has no core when the other is done makes both wait. So one of them may take the rows of both; it takes
some moments to find that out, which are in the figures: an epoch of the MLP takes a sixth of a second alone.

    of fair   samples/s beside the other, over two thirds of those alone
    of free   … over the part of those alone that the cores allow which the other process did not use, by the system's account

Wanted: 0.8 or more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sync import samples_per_second

CORES = 2
FAIR = 2 / 3


COMPUTES = """
import os
ours = os.getppid()
while os.getppid() == ours:  # it must not outlive a benchmark that is killed
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def foreign() -> Iterator[Callable[[], float]]:
    """Gives a function that tells how many cores it has used on average."""
    other = subprocess.Popen([sys.executable, "-c", COMPUTES], start_new_session=True)
    began = time.monotonic()

    def used() -> float:
        user, system = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)

    try:
        yield used
    finally:
        other.kill()
        other.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--cases", default="mlp-256,mlp-1024,cnn-256")
    parser.add_argument("--shares", choices=["equal", "measured"], default="equal", help="of the batch, for each worker")
    args = parser.parse_args()
    team = ("--strategy", f"sync:shares={args.shares}", "--workers", "2")
    for case in args.cases.split(","):
        fair, free, others = [], [], []
        for _ in range(args.rounds):
            alone = samples_per_second(case, args.epochs, *team)
            with foreign() as used:
                beside = samples_per_second(case, args.epochs, *team)
                others.append(used())
            fair.append(beside / (FAIR * alone))
            free.append(beside / ((CORES - others[-1]) / CORES * alone))
        found = ", ".join(
            f"of {name} {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"
            for name, shares in (("fair", fair), ("free", free))
        )
        print(f"{case}: {found}; the other used {statistics.median(others):.2f} cores", flush=True)


if __name__ == "__main__":
    main()
