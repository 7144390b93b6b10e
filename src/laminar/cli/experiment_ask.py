"""What the verbs of ready experiments do: run one, and show it beside what was published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import typer

from laminar.cli.build import sigterm_as_ctrl_c
from laminar.cli.experiment_progress import experiment_progress
from laminar.cli.experiment_tables import show_summary
from laminar.cli.output import print_json, remark
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.experiments.ready.ask import Answer, Limits, answers, uses_stack_at_hand
from laminar.experiments.ready.form import Ask
from laminar.experiments.results import Summary
from laminar.experiments.run import all_failed
from laminar.experiments.statistics import summary
from laminar.stack.project import Project, open_project


def ask(verb: str, /, *, quiet: bool, json: bool, report: Path | None = None, **given: Any) -> None:
    """`given`: the options of this verb by name."""
    if report is not None:
        from laminar.experiments.report import check_page

        check_page(report)  # not after hours of trials
    limits = Limits(**{field: given.pop(field, None) for field in Limits.__struct_fields__})
    asked = Ask(**given)
    if asked.target is not None and not 0 < asked.target < 1:
        raise LaminarError("L008", f"--target {asked.target:g}: an accuracy is above 0 and below 1", hint="--target 0.9")
    if verb == "grid":
        from laminar.grid.extra import need_grid

        need_grid()
    project = open_project()
    own_stack = uses_stack_at_hand(verb, project, asked)
    if not quiet:
        own = f"the stack at hand, {project.stack}" if own_stack else "the stack that comes with it"
        remark(f"{verb}: on {own}")
    found: list[tuple[Answer, Summary]] = []
    try:
        with sigterm_as_ctrl_c(), experiment_progress(quiet=quiet) as emit:
            for one in answers(verb, asked, project, limits, emit):
                found.append((one, summary(one.description, one.trials)))
    except KeyboardInterrupt:
        remark("interrupted: every trial that has ended is kept; the same command goes on")
        raise typer.Exit(130) from None
    if report is not None:
        _write_pages(report, [one.description.name for one, _ in found], project)
    if json:
        print_json({"experiments": [msgspec.to_builtins(shown) for _, shown in found]})
    else:
        for _, shown in found:
            show_summary(shown)
            if shown.done < shown.planned:
                remark(f"{shown.planned - shown.done} of {shown.planned} trials are left: the same command goes on")
    for one, shown in found:
        if error := all_failed(one.trials):
            others = "; or --layer NAME for another layer, --data fashion-mnist for the stack that comes with Laminar" if own_stack else ""
            raise LaminarError(error.code, error.message, hint=error.hint + others)
        if shown.failures:
            remark(f"warning: {many(len(shown.failures), 'trial')} failed; laminar experiment show {shown.name} lists them")


def _write_pages(page: Path, names: list[str], project: Project) -> None:
    """One for each part of the experiment; of several the names are added to the file's."""
    from laminar.experiments.report import write_report

    for name in names:
        own = page if len(names) == 1 else page.with_name(f"{page.stem}-{name}{page.suffix}")
        for path in write_report(project.look_at_store(), name, html=own).files:
            remark(f"wrote {path}")
