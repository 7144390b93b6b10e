"""What the verbs of ready experiments do: run one, and show it beside what was published."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from laminar.cli.experiment_progress import experiment_progress
from laminar.cli.experiment_tables import show_summary
from laminar.cli.output import number, print_json, remark, say, table
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.experiments.ready.ask import Answer, Limits, answers, uses_stack_at_hand
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.more import Cell, tables
from laminar.experiments.results import Summary
from laminar.experiments.run import all_failed
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project


def ask(verb: str, /, *, quiet: bool, json: bool, **given: Any) -> None:
    """`given`: the options of this verb by name."""
    limits = Limits(**{field: given.pop(field, None) for field in Limits.__struct_fields__})
    asked = Ask(**given)
    if asked.target is not None and not 0 < asked.target < 1:
        raise LaminarError("L008", f"--target {asked.target:g}: an accuracy is above 0 and below 1", hint="--target 0.9")
    if verb == "grid":
        from laminar.grid.extra import need_grid

        need_grid()
    project = open_project()
    if not quiet:
        own = f"the stack at hand, {project.stack}" if uses_stack_at_hand(verb, project, asked) else "the stack that comes with it"
        remark(f"{verb}: on {own}")
    found: list[tuple[Answer, Summary]] = []
    try:
        with experiment_progress(quiet=quiet) as emit:
            for one in answers(verb, asked, project, limits, emit):
                found.append((one, summary(one.description, one.trials)))
    except KeyboardInterrupt:
        remark("interrupted: every trial that has ended is kept; the same command goes on")
        raise typer.Exit(130) from None
    if json:
        print_json({"experiments": [_as_json(one, shown) for one, shown in found]})
    else:
        for one, shown in found:
            _show(one, shown)
    for one, shown in found:
        if error := all_failed(one.trials):
            raise error
        if shown.failures:
            remark(f"warning: {many(len(shown.failures), 'trial')} failed; laminar experiment show {shown.name} lists them")


def _as_json(one: Answer, shown: Summary) -> dict[str, Any]:
    more = [extra.to_json() for extra in tables(one.ready, one.description, one.trials)]
    return {"study": one.ready.study, **msgspec.to_builtins(shown), "tables": more}


def _show(one: Answer, shown: Summary) -> None:
    show_summary(shown)
    for extra in tables(one.ready, one.description, one.trials):
        table(extra.title, extra.columns, [[_cell(cell) for cell in row] for row in extra.rows], right=extra.columns[1:])
    if one.ready.study:
        say(f"published: {one.ready.study}")
    if shown.done < shown.planned:
        remark(f"{shown.planned - shown.done} of {shown.planned} trials are left: the same command goes on")


def _cell(cell: Cell) -> str:
    if isinstance(cell, int):  # epochs and workers are counted: 1, not 1.0000
        return f"{cell:,}"
    return cell if isinstance(cell, str) else "-" if cell is None else number(cell)
