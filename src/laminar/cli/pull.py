"""Copy a layer from a remote: a folder, or a URL (ftp, http, s3, ssh).

Every object is checked on arrival; no code of its author is needed or run.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say_line
from laminar.cli.progress import counting
from laminar.core import digest
from laminar.stack.project import open_project
from laminar.stack.share import pull_layer


def run(
    remote: Annotated[str, typer.Argument(help="A folder, a URL, or a name given by `laminar remote add`.")],
    ref: Annotated[str, typer.Argument(help="digits/head, a tag, or name@sha256:ID.")],
    into: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Call it so here: stack/layer, or a tag.")] = None,
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store()
    with counting("pulling", quiet=json) as progress:
        id = pull_layer(project, store, remote, ref, into=into, progress=progress)
    manifest = store.layer(id)
    if json:
        print_json({"remote": remote, "id": id, "name": manifest.name, "stack": manifest.stack, "metrics": manifest.metrics})
    else:
        say_line(f"{into or f'{manifest.stack}/{manifest.name}'} ({digest.short(id)})")
