"""Write a layer as .safetensors (weights), .pt2 (torch.export, graph and weights) or .onnx; the file's ending says which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, size
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    ref: Annotated[str, typer.Argument(help="head, digits/head, a tag or an id.")],
    out: Annotated[Path, typer.Argument(help="out.safetensors, out.pt2 or out.onnx.")],
    json: Json = False,
) -> None:
    from laminar.stack.files import export_layer

    project = open_project()
    store = project.open_store(create=False)
    id = resolve(store, ref, project.stack)
    export_layer(store, id, out, project.root)
    if json:
        print_json({"id": id, "file": str(out), "bytes": out.stat().st_size})
    else:
        say(f"wrote {out} ({size(out.stat().st_size)})")
