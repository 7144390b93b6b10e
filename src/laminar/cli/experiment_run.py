"""Run the experiment that a sweep file describes: every variant, so many times, each a build.

What variants share is built once. Ctrl-C keeps every trial that has ended: the same command goes on with the rest, and a trial that
was run is never run again. At the end there is a table in per cent of the benchmark. A trial that fails is recorded with its error,
and the rest goes on: the exit code is 0 with a warning, and 6 if all failed.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from laminar.cli.experiment_progress import experiment_progress
from laminar.cli.experiment_tables import show_summary
from laminar.cli.output import Json, print_json, remark
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.experiments.spec import Budget, Sweep, checked, read_sweep
from laminar.experiments.statistics import Summary, summary
from laminar.stack.project import open_project
from laminar.stack.read import StackFile
from laminar.store.store import Store

Quick = Annotated[bool, typer.Option("--quick", help="A minute at most: fewer samples and repeats. Kept as NAME-quick.")]
Repeats = Annotated[int | None, typer.Option("--repeats", min=1, max=1000, help="How often each variant is trained.")]
Hours = Annotated[float | None, typer.Option("--budget-hours", min=0, help="Stop after so many hours; the same command goes on later.")]
Trials = Annotated[int | None, typer.Option("--budget-trials", min=1, help="Stop after so many trials of this go.")]
Yes = Annotated[bool, typer.Option("--yes", help="Begin even if that is more than 10,000 trials.")]
EvenIfBusy = Annotated[bool, typer.Option("--even-if-busy", help="Count times whatever else this machine does meanwhile.")]
OnWhere = Annotated[str | None, typer.Option("--on", metavar="WHERE", help="Where workers run: local, ray, ray://HOST:10001, spark, …")]
AtOnce = Annotated[int | None, typer.Option("--at-once", min=1, help="Trials side by side, where time is not measured; on Ray one a core.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def run(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.TOML", help="What varies, and what is measured.")],
    quick: Quick = False,
    repeats: Repeats = None,
    budget_hours: Hours = None,
    budget_trials: Trials = None,
    yes: Yes = False,
    even_if_busy: EvenIfBusy = False,
    on: OnWhere = None,
    at_once: AtOnce = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    sweep = read_sweep(file)
    project = open_project((file.resolve().parent / sweep.stack) if sweep.stack is not None else None)
    sweep = with_options(sweep, repeats=repeats, hours=budget_hours, trials=budget_trials, even_if_busy=even_if_busy)
    words = ["laminar", "experiment", "run", os.path.relpath(file.resolve(), project.root)]
    for flag, value in (("--quick", quick), ("--repeats", repeats), ("--yes", yes), ("--even-if-busy", even_if_busy), ("--on", on)):
        words += [flag] if value is True else [flag, str(value)] if value else []
    again = shlex.join(words)
    stack, store = project.need_file(), project.open_store()
    carry_out(sweep, stack, store, quick=quick, yes=yes, on=on, at_once=at_once, quiet=quiet, json=json, command=again)


def with_options(sweep: Sweep, *, repeats: int | None, hours: float | None, trials: int | None, even_if_busy: bool) -> Sweep:
    """What the command line says instead of the file."""
    if hours is not None and hours <= 0:
        raise LaminarError("L008", f"--budget-hours is {hours:g}, but must be above 0", hint="--budget-hours 0.5")
    budget = Budget(hours=hours or sweep.budget.hours, trials=trials or sweep.budget.trials)
    return checked(
        msgspec.structs.replace(sweep, repeats=repeats or sweep.repeats, budget=budget, even_if_busy=even_if_busy or sweep.even_if_busy),
        "the sweep with these options",
    )


def carry_out(
    sweep: Sweep,
    file: StackFile,
    store: Store,
    *,
    quick: bool = False,
    yes: bool = False,
    on: str | None = None,
    at_once: int | None = None,
    quiet: bool = False,
    json: bool = False,
    command: str = "",
) -> Summary:
    """Run it with progress, and show what came of it."""
    from laminar.cli.build import sigterm_as_ctrl_c
    from laminar.experiments.prepare import prepare
    from laminar.experiments.run import all_failed, default_at_once
    from laminar.experiments.run import run as run_trials

    prepared = prepare(sweep, file, store, quick=quick, yes=yes, command=command)
    described = prepared.description
    side_by_side = at_once or default_at_once(described, on)
    try:
        with sigterm_as_ctrl_c(), experiment_progress(quiet=quiet) as emit:
            trials = run_trials(described, prepared.sweep, prepared.file, store, emit, on=on, at_once=side_by_side)
    except KeyboardInterrupt:
        remark("interrupted: every trial that has ended is kept; the same command goes on")
        raise typer.Exit(130) from None
    found = summary(described, trials)
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        show_summary(found)
    if error := all_failed(trials):
        raise error
    if found.failures:
        remark(f"warning: {many(len(found.failures), 'trial')} failed; laminar experiment show {described.name} lists them")
    return found
