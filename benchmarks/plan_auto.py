"""Is what `--strategy auto` chooses as fast as the best fixed choice?

    LAMINAR_DATA=… python benchmarks/plan_auto.py [--jobs mlp,wide,cnn,branches] [--rounds 2] [--epochs 3] [--samples 12000]

Four models; each is built by one process, by two workers with sync and with those of mesh, pipeline and branches that plan_accuracy.py
shows to be near for it, and with auto, all in turns. A figure is the samples/s of an epoch of training, as the run's own events tell it:
the median over the epochs but the first, and over the rounds. Measuring, planning and trying are not in it: they come once, and are kept;
their seconds are printed apart.
In pieces: `--keep FOLDER` has what was measured before, `--only STRATEGY` makes one build of each job (`first`: the one that measures), and
`--rounds 0` only sums up what is in the folder.
Wanted: auto takes at most 1.05 times as long as the best of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from one_build import Told
from plan_jobs import JOBS, project

from laminar.core.events import read

FIRST = "first"
AUTO = "auto"
FIXED = {
    "mlp": ["solo", "sync:workers=2"],
    "wide": ["solo", "sync:workers=2", 'mesh:mesh={cols=2},split={hidden="cols"}', "pipeline:stages=2,microbatches=4"],
    "cnn": ["solo", "sync:workers=2", "pipeline:stages=2,microbatches=8"],
    "branches": ["solo", "sync:workers=2", "branches:lanes=2", "pipeline:stages=2,microbatches=4"],
}


def build(job: str, strategy: str, epochs: int, samples: int) -> dict[str, object]:
    """Samples/s, seconds of the whole command, and what auto says of its choice."""
    with project(job, epochs=1 if strategy == FIRST else epochs, samples=samples) as folder:
        began = time.perf_counter()
        chosen = AUTO if strategy == FIRST else strategy
        command = [sys.executable, "-m", "laminar", "build", "-q", "--json", "--strategy", chosen]
        built = json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
        spent = time.perf_counter() - began
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        why = [note for note in built["layers"][0]["notes"] if note.startswith("auto chose")]
        said = {
            "job": job,
            "strategy": strategy,
            "rate": Told(list(read(events))).samples_per_second,
            "seconds": spent,
            "why": "".join(why),
        }
    print(json.dumps(said), flush=True)
    return said


def wanted(job: str, only: str | None, rounds: int, done: set[str]) -> Iterator[str]:
    """What is to be built, in turns; measured before it is chosen from what was measured."""
    if only is not None:
        yield only
        return
    if rounds and FIRST not in done:
        yield FIRST
    for _ in range(rounds):
        yield from (*FIXED[job], AUTO)


def tell(job: str, rows: list[dict[str, object]]) -> None:
    rates: dict[str, list[float]] = {}
    for row in rows:
        if row["strategy"] != FIRST:
            rates.setdefault(str(row["strategy"]), []).append(float(str(row["rate"])))
    middle = {strategy: statistics.median(some) for strategy, some in rates.items()}
    for strategy, value in middle.items():
        some = rates[strategy]
        print(f"{job:10}{value:>12,.0f} samples/s ({min(some):,.0f} to {max(some):,.0f} in {len(some)})  {strategy}", flush=True)
    fixed = [(value, strategy) for strategy, value in middle.items() if strategy != AUTO]
    if fixed and AUTO in middle:
        first = sum(float(str(row["seconds"])) for row in rows if row["strategy"] == FIRST)
        print(f"{job:10}auto takes {max(fixed)[0] / middle[AUTO]:.2f} times as long as {max(fixed)[1]}; its first build took {first:.0f} s")
        for why in sorted({str(row["why"]) for row in rows if row["strategy"] == AUTO}):
            print(f"{job:10}{why}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=12_000)
    parser.add_argument("--only", metavar="STRATEGY")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    with ExitStack() as held:
        kept = args.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        kept.mkdir(parents=True, exist_ok=True)
        os.environ["LAMINAR_PROFILE"] = str(kept / "profile.sqlite")
        os.environ["LAMINAR_LEDGER"] = str(kept / "ledger.sqlite")
        for job in args.jobs.split(","):
            file = kept / f"{job}.jsonl"
            rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
            for strategy in wanted(job, args.only, args.rounds, {str(row["strategy"]) for row in rows}):
                rows.append(build(job, strategy, args.epochs, args.samples))
                with file.open("a") as out:
                    print(json.dumps(rows[-1]), file=out)
            tell(job, rows)


if __name__ == "__main__":
    main()
