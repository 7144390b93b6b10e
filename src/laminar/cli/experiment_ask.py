"""What the verbs of ready experiments do: run one, and show it beside what was published."""

from __future__ import annotations

from typing import Any

import typer

from laminar.cli.experiment_show import show_summary
from laminar.cli.output import number, print_json, remark, say, table
from laminar.core.errors import LaminarError
from laminar.experiments.ready.ask import Answer, answer, uses_stack_at_hand
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.more import tables
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project


def ask(name: str, **given: Any) -> None:
    own = {key: given.pop(key, None) for key in ("trials", "on", "workers")}
    json = given.pop("json")
    asked = Ask(**given)
    if asked.target is not None and not 0 < asked.target < 1:
        raise LaminarError("L008", f"--target {asked.target}: an accuracy is above 0 and below 1", hint="--target 0.9")
    if name == "grid":
        from laminar.cli.grid_extra import need_grid

        need_grid()
    project = open_project()
    stack = "the stack at hand" if uses_stack_at_hand(name, project, asked) else "the built-in stack"
    remark(f"{name}: on {stack}")
    for one in answer(name, asked, project, **own):
        _show(one, json)


def _show(one: Answer, json: bool) -> None:
    found = summary(one.description, one.trials)
    more = tables(one.ready, one.description, one.trials)
