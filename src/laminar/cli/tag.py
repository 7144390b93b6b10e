"""Give a layer a name that stays, such as base:v1. Without arguments, list the tags; --delete removes one."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.stack.project import open_project
from laminar.store.resolve import resolve


def run(
    ref: Annotated[str | None, typer.Argument(help="The layer: head, digits/head~1, an id.")] = None,
    name: Annotated[str | None, typer.Argument(help="Its name, such as base:v1.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Move a tag that names another layer.")] = False,
    delete: Annotated[str | None, typer.Option("--delete", metavar="NAME", help="Remove a tag; the layer stays.")] = None,
    json: Json = False,
) -> None:
    project = open_project()
    store = project.open_store(create=False)
    if delete is not None:
        store.refs.untag(delete)
    elif ref is not None:
        if name is None:
            raise LaminarError("L008", f"a tag needs a layer and a name, found only '{ref}'", hint=f"laminar tag {ref} name:v1")
        id = resolve(store, ref, project.stack)
        store.refs.tag(name, id, force=force)
        if not json:
            say(f"{name} -> {digest.short(id)}")
            return
    tags = store.refs.tags()
    if json:
        print_json({"tags": [{"name": tag, "id": id} for tag, id in tags.items()]})
    elif tags:
        table("", ["tag", "id", "layer"], [[tag, digest.short(id), store.layer(id).name] for tag, id in tags.items()])
    else:
        say("no tags yet: laminar tag head base:v1")
