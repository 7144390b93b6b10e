"""How far are predicted step times from measured ones, and is the measured best among the first of the list?

    LAMINAR_DATA=… python benchmarks/plan_accuracy.py [--jobs mlp,wide,cnn,branches] [--rounds 1] [--kinds solo,sync,…]

Four models; for each the best plan of every kind (solo, sync, averaging, mesh, pipeline, branches) with two workers, predicted from
measured operators and links, then run for some real steps (plan/trials/trial.py). Three summaries: as predicted from measurements alone;
with --calibrate, corrected by what `laminar plan --calibrate` learns from three small models of its own; and corrected by the runs of the
other models, as the ledger does for a user who built those before. No model is ever predicted from its own runs.
Wanted: errors of 20 % in the middle and 30 % at most; the measured best is first or second of the list.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from plan_jobs import project

from laminar.plan.correction import NONE, Correction, correction

KINDS = ("solo", "sync", "averaging", "mesh", "pipeline", "branches")
Row = tuple[str, float, float, float]  # kind, predicted, measured, beat


def one_job(name: str, kinds: list[str], rounds: int) -> list[Row]:
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
        profile = held.enter_context(Profile.open(job))
        found = plan_job(job, profile, ledger, Wishes(workers=2, batch=job.recipe.batch, budget=600.0)).found
        best = {}
        for plan in found.plans:
            if plan.kind in kinds and plan.workers in (1, 2):
                best.setdefault(plan.kind, plan)
        rows = []
        for plan in best.values():
            tried = [try_plan(job, description, profile, ledger, plan) for _ in range(rounds)]
            measured = statistics.median([one.seconds for one in tried if one is not None])
            rows.append((plan.kind, plan.raw_seconds, measured, plan.beat))
            print(f"{name:10}{1e3 * plan.raw_seconds:>10.2f} ms predicted {1e3 * measured:>10.2f} ms measured  {plan.name}", flush=True)
        os.chdir(tempfile.gettempdir())
    return rows


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


def calibrated() -> dict[tuple[str, int], Correction]:
    """What the planner's own calibration teaches."""
    from laminar.plan.ledger import Ledger
    from laminar.plan.profile.this_machine import torch_version
    from laminar.plan.trials.calibrate import calibrate

    with tempfile.TemporaryDirectory() as folder, closing(Ledger.open(Path(folder) / "ledger.sqlite")) as ledger:
        calibrate(ledger, 2, tell=lambda *_: None)
        for one in ledger.all():
            figures = f"{1e3 * one.raw_seconds:.2f} ms predicted, {1e3 * one.measured_seconds:.2f} measured"
            print(f"calibration: {one.layer} {one.kind}: {figures}", flush=True)
        found = ledger.corrections(ledger.all()[0].machine, torch_version())
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
    parser.add_argument("--calibrate", action="store_true")
    args = parser.parse_args()
    jobs = {name: one_job(name, args.kinds.split(","), args.rounds) for name in args.jobs.split(",")}
    summary("from measurements alone", jobs)
    if args.calibrate:
        learned = calibrated()
        told = {
            name: [(kind, learned.get((kind, 2 - (kind == "solo")), NONE)(p, b), m, b) for kind, p, m, b in rows]
            for name, rows in jobs.items()
        }
        summary("calibrated", told)
    if len(jobs) > 2:
        summary("corrected by the other models' runs", corrected(jobs))


if __name__ == "__main__":
    main()
