"""List, add or remove names for remotes: `laminar remote`, `laminar remote add lab s3://lab/models`, `laminar remote remove lab`."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, table
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.project import open_project
from laminar.store.drivers import masked
from laminar.store.remotes import Remotes


def run(
    action: Annotated[str, typer.Argument(help="list | add | remove")] = "list",
    name: Annotated[str | None, typer.Argument(help="A name for the remote.")] = None,
    url: Annotated[str | None, typer.Argument(help="A folder or a URL.")] = None,
    json: Json = False,
) -> None:
    project = open_project()
    remotes = Remotes(project.look_at_store() if action == "list" else project.open_store())
    if action == "add":
        if name is None or url is None:
            raise LaminarError("L008", "a remote needs a name and a URL", hint="laminar remote add lab s3://lab/models")
        remotes.add(name, url)
    elif action == "remove":
        if name is None:
            raise LaminarError("L008", "which remote?", hint="laminar remote remove lab")
        remotes.remove(name)
    elif action != "list":
        raise LaminarError(
            "L008", f"there is no action '{action}'; {did_you_mean(action, ['list', 'add', 'remove'])}", hint="laminar remote --help"
        )
    known = {**remotes.names(), **(project.file.spec.remotes if project.file else {})}
    named = {each: masked(place) for each, place in known.items()}  # what is printed may be logged: no passwords
    if json:
        print_json({"remotes": [{"name": n, "url": u} for n, u in named.items()]})
    elif named:
        table("", ["name", "url"], [[n, u] for n, u in named.items()])
    else:
        say("no remotes yet: laminar remote add lab URL")
