"""Metrics of a layer on a data set of laminar.toml, or on any source such as digits or folder:photos."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, number, print_json, say
from laminar.core import digest
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    ref: Annotated[str, typer.Argument(help="head, digits/head, a tag or an id.")],
    data: Annotated[str, typer.Option("--data", "-d", help="A [data.NAME] of laminar.toml, or a source.")],
    split: Annotated[str, typer.Option("--split", help="test | train")] = "test",
    json: Json = False,
) -> None:
    from laminar.stack.use import evaluate

    project = open_project()
    store = project.open_store(create=False)
    found = evaluate(project, store, resolve(store, ref, project.stack), data, split=split)
    if json:
        print_json(found.to_json())
    else:
        figures = ", ".join(f"{name} {number(value)}" for name, value in found.metrics.items())
        say(f"{ref} ({digest.short(found.id)}) on {found.samples} samples of {data}: {figures}")
