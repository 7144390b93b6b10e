"""What is left of two sync workers when a third, foreign process wants a core of two, too?

    LAMINAR_DATA=… python benchmarks/sync_beside.py [--rounds 3] [--epochs 6] [--cases mlp-256,mlp-1024,cnn-256] [--shares equal|measured]

The builds of sync.py with two workers, alone and beside a process that computes all the time, in turns. Three such processes share two
cores, so each has two thirds of one, and the workers could be two thirds as fast as alone; but they wait for each other at each step, and a
worker that has no core when the other is done makes both wait.

    share   samples/s beside the other, over two thirds of those alone. Wanted: 0.8 or more
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator

from sync import samples_per_second

FREE = 2 / 3


COMPUTES = """
import os
ours = os.getppid()
while os.getppid() == ours:  # it must not outlive a benchmark that is killed
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def foreign() -> Iterator[None]:
    other = subprocess.Popen([sys.executable, "-c", COMPUTES], start_new_session=True)
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--cases", default="mlp-256,mlp-1024,cnn-256")
    parser.add_argument("--shares", choices=["equal", "measured"], default="equal", help="of the batch, for each worker")
    args = parser.parse_args()
    team = ("--strategy", f"sync:shares={args.shares}", "--workers", "2")
    for case in args.cases.split(","):
        shares = []
        for _ in range(args.rounds):
            alone = samples_per_second(case, args.epochs, *team)
            with foreign():
                beside = samples_per_second(case, args.epochs, *team)
            shares.append(beside / (FREE * alone))
        print(f"{case}: share {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})", flush=True)


if __name__ == "__main__":
    main()
