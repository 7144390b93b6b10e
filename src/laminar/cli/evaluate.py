"""Metrics of a layer on its own data, on a data set of laminar.toml, or on any source such as digits or folder:photos."""

from __future__ import annotations

from typing import Annotated, cast, get_args

import typer

from laminar.cli.output import Json, number, print_json, say
from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    ref: Annotated[str, typer.Argument(help="head, digits/head, a tag or an id.")],
    data: Annotated[str | None, typer.Option("--data", "-d", help="A [data.NAME] of laminar.toml, or a source. Default: its own.")] = None,
    split: Annotated[str, typer.Option("--split", help="test | train")] = "test",
    json: Json = False,
) -> None:
    from laminar.stack.use import SplitName, evaluate

    splits = get_args(SplitName)
    if split not in splits:
        raise LaminarError(
            "L008",
            f"--split is {split!r}, but a data set has the splits {' and '.join(splits)}",
            hint=f"laminar evaluate {ref} --split test",
        )
    project = open_project()
    store = project.open_store(create=False)
    found = evaluate(project, store, resolve(store, ref, project.stack), data, split=cast("SplitName", split))
    if json:
        print_json(found.to_json())
    else:
        figures = ", ".join(f"{name} {number(value)}" for name, value in found.metrics.items())
        note = "" if found.objective in ("cross-entropy", "mse") else f" (the loss is {found.objective})"
        say(f"{ref} ({digest.short(found.id)}) on {found.samples} {found.split} samples of {found.data}: {figures}{note}")
