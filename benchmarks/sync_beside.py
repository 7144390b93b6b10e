"""What is left of two sync workers when a third, foreign process wants a core of two, too?

    LAMINAR_DATA=… python benchmarks/sync_beside.py [--rounds 3] [--epochs 6] [--cases mlp-256,mlp-1024,cnn-256]

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

TEAM = ("--strategy", "sync", "--workers", "2")
FREE = 2 / 3


@contextlib.contextmanager
def foreign() -> Iterator[None]:
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
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
    args = parser.parse_args()
    for case in args.cases.split(","):
        shares = []
        for _ in range(args.rounds):
            alone = samples_per_second(case, args.epochs, *TEAM)
            with foreign():
                beside = samples_per_second(case, args.epochs, *TEAM)
            shares.append(beside / (FREE * alone))
        print(f"{case}: share {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})", flush=True)


if __name__ == "__main__":
    main()
