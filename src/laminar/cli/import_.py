"""Make a layer of a file: a .pt2 with its graph, or weights (.safetensors, .pt) with the factory they belong to.

Nothing in the file is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.core import digest
from laminar.stack.project import open_project


def run(
    file: Annotated[Path, typer.Argument(help="A .pt2, .safetensors or .pt file.")],
    name: Annotated[str | None, typer.Option("--name", help="stack/layer to call it. Default: imported/ and the file's name.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The factory that weights belong to, such as models:convnet.")] = None,
    args: Annotated[str | None, typer.Option("--args", help='Its arguments as a TOML table: "{ classes = 5 }".')] = None,
    input: Annotated[str | None, typer.Option("--input", help="Shape of one sample: 1,28,28.")] = None,
    classes: Annotated[str | None, typer.Option("--classes", help="Names of the classes: cat,dog.")] = None,
    json: Json = False,
) -> None:
    from laminar.stack.files import import_layer
    from laminar.stack.init import stack_name

    project = open_project()
    store = project.open_store()
    called = name or f"imported/{stack_name(file.with_suffix(''))}"
    named = [part.strip() for part in classes.split(",")] if classes else None
    id = import_layer(store, file, name=called, root=project.root, factory=model, args=args, shape=input, classes=named)
    if json:
        print_json({"id": id, "ref": called, "graph": store.layer(id).graph.eval is not None})
    else:
        say(f"{called} ({digest.short(id)})")
