"""How far are predicted step times from measured ones, and is the measured best among the first of the list?

    LAMINAR_DATA=… python benchmarks/plan_accuracy.py [--jobs mlp,wide,cnn,branches] [--rounds 1] [--kinds solo,sync,…] [--calibrate]

Four models; for each the best plan of every kind (solo, sync, averaging, mesh, pipeline, branches) with two workers, predicted from
measured operators and links, then run for some real steps (plan/trials/trial.py). Three summaries: as predicted from measurements alone;
with --calibrate, corrected by what `laminar plan --calibrate` learns from three small models of its own; and corrected by the runs of the
other models, as the ledger does for a user who built those before. No model is ever predicted from its own runs.

In pieces of at most two minutes each: `--keep FOLDER` has what was measured before, and then

    --jobs cnn --kinds none                 measures and plans for one model (again, where it says that plans were left out)
    --jobs cnn --kinds pipeline             runs one plan of it
    --jobs none --calibrate small           one of the models of the calibration: small, large, convolutions
    --jobs mlp,wide,cnn,branches --rounds 0 sums up what is in the folder

Wanted: errors of 20 % in the middle and 30 % at most; the measured best is first or second of the list.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from plan_jobs import project

from laminar.core.errors import LaminarError
from laminar.plan.correction import NONE, Correction, correction
from laminar.plan.our_code import TRAINING, our_code

KINDS = ("solo", "sync", "averaging", "mesh", "pipeline", "branches")
TRIES = 4
BUDGET = 90.0  # seconds of measuring and searching, in a piece
T = TypeVar("T")
Row = tuple[str, float, float, float]  # kind, predicted, measured, beat


def one_job(name: str, kinds: list[str], rounds: int, kept: Path, *, even_if_busy: bool) -> None:
    """Adds lines to the job's file: what was predicted and measured."""
    from laminar.plan.ledger import Ledger
    from laminar.plan.profile.measure import Profile
    from laminar.plan.trials.auto import try_plan
    from laminar.plan.trials.open_layer import open_layer
    from laminar.plan.trials.planner import Wishes, plan_job
    from laminar.stack.project import open_project

    with ExitStack() as held:
        folder = held.enter_context(project(name))
        os.chdir(folder)
        opened = open_project()
        job, description = held.enter_context(open_layer(opened.need_file(), opened.open_store(), "base"))
        ledger = held.enter_context(closing(Ledger.open(Path(folder) / "ledger.sqlite")))
        profile = held.enter_context(Profile.open(job, path=kept / "profile.sqlite", even_if_busy=even_if_busy))
        wishes = Wishes(workers=2, batch=job.recipe.batch, budget=BUDGET)
        planned = patiently(partial(plan_job, job, profile, ledger, wishes))
        if planned is None:
            return
        found = planned.found
        print(f"{name:10}{len(found.plans)} plans priced in {found.seconds:.0f} s, {found.left_out} left out", flush=True)
        best: dict[str, Any] = {}
        for plan in found.plans:
            if plan.kind in KINDS and plan.workers in (1, 2):
                best.setdefault(plan.kind, plan)
        for plan in [plan for kind, plan in best.items() if kind in kinds]:
            run = partial(try_plan, job, description, profile, ledger, plan)
            tried = [seconds for _ in range(rounds) if (seconds := patiently(run))]
            for measured in tried:
                row = {"kind": plan.kind, "predicted": plan.raw_seconds, "measured": measured, "beat": plan.beat, "plan": plan.name}
                with (kept / f"accuracy-{name}.jsonl").open("a") as out:
                    print(json.dumps(row | {"code": our_code(*TRAINING)}), file=out)
                print(f"{name:10}{1e3 * plan.raw_seconds:>10.2f} ms predicted {1e3 * measured:>10.2f} ms measured  {plan.name}", flush=True)
        os.chdir(tempfile.gettempdir())


def patiently(measure: Callable[[], T | None]) -> T | None:
    """Again where somebody came to work on this machine meanwhile; None: too often, so it has to be run another time."""
    for _ in range(TRIES):
        try:
            return measure()
        except LaminarError as error:
            print(error.message, flush=True)
    return None


def rows_of(name: str, kept: Path) -> list[Row]:
    """Of each kind the median over its runs, by this code, and what was predicted last."""
    file = kept / f"accuracy-{name}.jsonl"
    told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    some: dict[str, list[dict[str, Any]]] = {}
    for row in told:
        if row["code"] == our_code(*TRAINING):
            some.setdefault(row["kind"], []).append(row)
    return [
        (kind, rows[-1]["predicted"], statistics.median(row["measured"] for row in rows), rows[-1]["beat"]) for kind, rows in some.items()
    ]


def corrected(jobs: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Each prediction by what other models' runs of that kind say."""
    found = {}
    for name, rows in jobs.items():
        others = [row for other, some in jobs.items() if other != name for row in some]
        found[name] = []
        for kind, predicted, measured, beat in rows:
            learned = correction([(b * p, b * m) for k, p, m, b in others if k == kind]) or NONE
            found[name].append((kind, learned(predicted, beat), measured, beat))
    return found


def calibrated(only: list[str], rounds: int, kept: Path, *, even_if_busy: bool) -> dict[tuple[str, int], Correction]:
    """What the planner's own calibration teaches."""
    from laminar.plan.ledger import Ledger
    from laminar.plan.profile.this_machine import torch_version
    from laminar.plan.trials.calibrate import calibrate

    os.environ["LAMINAR_PROFILE"] = str(kept / "profile.sqlite")
    with closing(Ledger.open(kept / "calibration.sqlite")) as ledger:
        if rounds:
            calibrate(ledger, 2, tell=lambda *_: None, even_if_busy=even_if_busy, only=only)
        entries = [one for one in ledger.all() if one.code == our_code(*TRAINING)]
        for one in entries:
            figures = f"{1e3 * one.raw_seconds:.2f} ms predicted, {1e3 * one.measured_seconds:.2f} measured"
            print(f"calibration: {one.layer} {one.kind}: {figures}", flush=True)
        found = ledger.corrections(entries[0].machine, torch_version(), our_code(*TRAINING)) if entries else {}
        for (kind, workers), one in found.items():
            print(f"calibration: {kind} {workers}: times {one.times:.2f}, plus {1e3 * one.plus:.2f} ms")
        return found


def summary(title: str, jobs: dict[str, list[Row]]) -> None:
    errors = {(name, kind): abs(p - m) / m for name, rows in jobs.items() for kind, p, m, _ in rows}
    worst = max(errors, key=lambda one: errors[one])
    print(f"{title}: wrong by {statistics.median(errors.values()):.0%} in the middle, {errors[worst]:.0%} at most ({' '.join(worst)})")
    for name, rows in jobs.items():
        order = [kind for kind, *_ in sorted(rows, key=lambda row: row[1])]
        best = min(rows, key=lambda row: row[2])[0]
        wrong = ", ".join(f"{kind} {(p - m) / m:+.0%}" for kind, p, m, _ in rows)
        print(f"  {name:10} measured best: {best}, number {order.index(best) + 1} of {len(order)} predicted; {wrong}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", default="mlp,wide,cnn,branches")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--calibrate", nargs="?", const="", metavar="MODELS")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--even-if-busy", action="store_true", help="to see whether it runs: figures mean nothing then")
    args = parser.parse_args()
    with ExitStack() as held:
        kept = (args.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))).absolute()
        kept.mkdir(parents=True, exist_ok=True)
        names = [name for name in args.jobs.split(",") if name != "none"]
        for name in names if args.rounds else []:
            one_job(name, args.kinds.split(","), args.rounds, kept, even_if_busy=args.even_if_busy)
        jobs = {name: rows for name in names if (rows := rows_of(name, kept))}
        learned: dict[tuple[str, int], Correction] = {}
        if args.calibrate is not None:
            only = [one for one in args.calibrate.split(",") if one]
            learned = calibrated(only, args.rounds, kept, even_if_busy=args.even_if_busy)
    if jobs:
        summary("from measurements alone", jobs)
    if jobs and learned:
        told = {
            name: [(kind, learned.get((kind, 2 - (kind == "solo")), NONE)(p, b), m, b) for kind, p, m, b in rows]
            for name, rows in jobs.items()
        }
        summary("calibrated", told)
    if len(jobs) > 2:
        summary("corrected by the other models' runs", corrected(jobs))


if __name__ == "__main__":
    main()
