"""Two layers: which inputs, tensors and metrics differ, and how far each tensor has moved."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, number, print_json, say, table
from laminar.stack.diff import diff
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    a: Annotated[str, typer.Argument(help="A layer, such as head~1.")],
    b: Annotated[str, typer.Argument(help="Another, such as head.")],
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store(create=False)
    found = diff(store, resolve(store, a, project.stack), resolve(store, b, project.stack))
    if json:
        print_json(found.to_json())
        return
    if not found.inputs and not found.tensors:
        say("the two are equal")
        return
    if found.inputs:
        table("inputs", ["input", a, b], [[f, str(x), str(y)] for f, x, y in found.inputs])
    if found.tensors:
        say("")
        rows = [[t.name, t.state, f"{t.moved:.2%}" if t.moved is not None else "-"] for t in found.tensors]
        table(f"tensors ({found.equal_tensors} are equal)", ["name", "", "moved"], rows, right=["moved"])
    if found.metrics:
        say("")
        table("metrics", ["", a, b], [[m, number(x), number(y)] for m, (x, y) in found.metrics.items()], right=[a, b])
