"""Is what `--strategy auto` chooses as fast as the best fixed choice?

    LAMINAR_DATA=… python benchmarks/plan_auto.py [--jobs mlp,wide,cnn,branches] [--rounds 2] [--epochs 3]

Four models; each is built by one process, by two workers with sync and with those of mesh, pipeline and branches that plan_accuracy.py
shows to be near for it, and with auto, all in turns. A figure is the samples/s of an epoch of training, as the run's own events tell it:
the median over the epochs but the first, and over the rounds. Measuring, planning and trying are not in it: they come once, and are kept;
their seconds are printed apart.
Wanted: auto takes at most 1.05 times as long as the best of the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from one_build import Told
from plan_jobs import JOBS, project

from laminar.core.events import read

FIXED = {
    "mlp": ["solo", "sync:workers=2"],
    "wide": ["solo", "sync:workers=2", 'mesh:mesh={cols=2},split={hidden="cols"}', "pipeline:stages=2,microbatches=4"],
    "cnn": ["solo", "sync:workers=2", "pipeline:stages=2,microbatches=8"],
    "branches": ["solo", "sync:workers=2", "branches:lanes=2", "pipeline:stages=2,microbatches=4"],
}


def rate(job: str, strategy: str, epochs: int) -> tuple[float, float]:
    """Samples/s, and seconds of the whole command."""
    with project(job, epochs=epochs, samples=12_000) as folder:
        began = time.perf_counter()
        command = [sys.executable, "-m", "laminar", "build", "-q", "--strategy", strategy]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        spent = time.perf_counter() - began
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        return Told(list(read(events))).samples_per_second, spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        os.environ["LAMINAR_PROFILE"] = str(Path(kept) / "profile.sqlite")
        os.environ["LAMINAR_LEDGER"] = str(Path(kept) / "ledger.sqlite")
        for job in args.jobs.split(","):
            _, first = rate(job, "auto", 1)  # measures, which is kept
            rates: dict[str, list[float]] = {}
            for _ in range(args.rounds):
                for strategy in [*FIXED[job], "auto"]:
                    rates.setdefault(strategy, []).append(rate(job, strategy, args.epochs)[0])
            middle = {strategy: statistics.median(some) for strategy, some in rates.items()}
            for strategy, value in middle.items():
                print(f"{job:10}{value:>12,.0f} samples/s  {strategy}", flush=True)
            best = max((value, strategy) for strategy, value in middle.items() if strategy != "auto")
            print(
                f"{job:10}auto takes {best[0] / middle['auto']:.2f} times as long as {best[1]}; its first build took {first:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
