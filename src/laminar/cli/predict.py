"""What a layer says of images (scaled to its input) or of .npy arrays of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    ref: Annotated[str, typer.Argument(help="head, digits/head, a tag or an id.")],
    files: Annotated[list[Path], typer.Argument(help="Images or .npy files.")],
    json: Json = False,
) -> None:
    from laminar.stack.use import predict

    project = open_project()
    store = project.open_store(create=False)
    rows = predict(project, store, resolve(store, ref, project.stack), files)
    if json:
        print_json({"predictions": rows})
    elif "class" in rows[0]:
        table(
            "", ["file", "class", "probability"], [[r["file"], r["class"], f"{r['probability']:.3f}"] for r in rows], right=["probability"]
        )
    else:
        for row in rows:
            say(f"{row['file']}  {' '.join(f'{v:.6g}' for v in row['values'])}")
