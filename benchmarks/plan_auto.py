"""Is what `--strategy auto` chooses as fast as the best fixed choice?

    LAMINAR_DATA=… python benchmarks/plan_auto.py [--jobs mlp,wide,cnn,branches] [--rounds 2] [--seconds 8] [--samples N]

Four models, each to be trained for about ten minutes by one process; so auto plans and tries as long as it does for such a training. Each
is built by one process, by two workers with sync and with those of mesh, pipeline and branches that plan_accuracy.py shows to be near for
it, and with auto, all in turns. A build is ended (Ctrl-C) when it has trained for so many seconds and three epochs. A figure is the
samples/s of an epoch of training, as the run's own events tell it: the median over the epochs but the first, and over the rounds.
Measuring, planning and trying are not in it, and printed apart. In pieces of at most two minutes: `--keep FOLDER` has what was measured
before, `--only STRATEGY` makes one build of each job, and `--rounds 0` only sums up what is in the folder.
Wanted: auto takes at most 1.05 times as long as the best of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from one_build import Told
from plan_jobs import JOBS, project

from laminar.core.events import read
from laminar.plan.kept_plans import kept
from laminar.store.retention import PASSING
from laminar.store.store import Store

SAMPLES = {"mlp": 12_000, "wide": 6_000, "cnn": 1_500, "branches": 1_500}  # of an epoch that takes a few seconds
EPOCHS = {"mlp": 7_000, "wide": 200, "cnn": 100, "branches": 100}  # of about ten minutes
FEWEST = 3  # epochs that are waited for
TICK = 0.1  # seconds
AUTO = "auto"
FIXED = {
    "mlp": ["solo", "sync:workers=2"],
    "wide": ["solo", "sync:workers=2", 'mesh:mesh={cols=2},split={hidden="cols"}', "pipeline:stages=2,microbatches=4"],
    "cnn": ["solo", "sync:workers=2", "pipeline:stages=2,microbatches=8"],
    "branches": ["solo", "sync:workers=2", "branches:lanes=2", "pipeline:stages=2,microbatches=4"],
}


def build(job: str, strategy: str, seconds: float, samples: int) -> dict[str, object]:
    """Samples/s, seconds until training began, and what auto says of its choice."""
    with project(job, epochs=EPOCHS[job], samples=samples) as folder:
        began = time.time()
        command = [sys.executable, "-m", "laminar", "build", "--strategy", strategy]
        building = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        told = Told([])
        while building.poll() is None:
            time.sleep(TICK)
            files = [one for one in folder.glob(".laminar/runs/*/events.jsonl") if not one.parent.name.startswith(PASSING)]
            told = Told(list(read(files[0]))) if files else told
            epochs = told.all("epoch")
            if len(epochs) >= FEWEST and epochs[-1]["t"] - epochs[0]["t"] >= seconds:
                building.send_signal(signal.SIGINT)
                break
        _, said = building.communicate(timeout=60)
        if building.returncode != 130:
            raise SystemExit(f"{job} with {strategy} ended with {building.returncode}, before it was told to:\n{said}")
        answer = kept(Store.open(folder / ".laminar"), "bench", "base") if strategy == AUTO else None
        spent = [line.strip() for line in said.splitlines() if "planned for" in line]
    return {
        "job": job,
        "strategy": strategy,
        "rate": told.samples_per_second,
        "until": told.all("start")[0]["t"] - began,
        "chosen": answer.plans[answer.chosen].name if answer is not None else "",
        "planned": spent[0] if spent else "",
    }


def tell(job: str, rows: list[dict[str, object]]) -> None:
    rates: dict[str, list[float]] = {}
    for row in rows:
        rates.setdefault(str(row["strategy"]), []).append(float(str(row["rate"])))
    middle = {strategy: statistics.median(some) for strategy, some in rates.items()}
    for strategy, value in middle.items():
        some = rates[strategy]
        print(f"{job:10}{value:>12,.0f} samples/s ({min(some):,.0f} to {max(some):,.0f} in {len(some)})  {strategy}", flush=True)
    fixed = [(value, strategy) for strategy, value in middle.items() if strategy != AUTO]
    if fixed and AUTO in middle:
        print(f"{job:10}auto takes {max(fixed)[0] / middle[AUTO]:.2f} times as long as {max(fixed)[1]}")
    for row in [row for row in rows if row["strategy"] == AUTO]:
        print(f"{job:10}auto chose {row['chosen']}; training began after {float(str(row['until'])):.0f} s; {row['planned']}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--only", metavar="STRATEGY")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    with ExitStack() as held:
        folder = args.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["LAMINAR_PROFILE"] = str(folder / "profile.sqlite")
        os.environ["LAMINAR_LEDGER"] = str(folder / "ledger.sqlite")
        for job in args.jobs.split(","):
            file = folder / f"{job}.jsonl"
            rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
            for strategy in [args.only] if args.only else args.rounds * [*FIXED[job], AUTO]:
                rows.append(build(job, strategy, args.seconds, args.samples or SAMPLES[job]))
                with file.open("a") as out:
                    print(json.dumps(rows[-1]), file=out)
            tell(job, rows)


if __name__ == "__main__":
    main()
