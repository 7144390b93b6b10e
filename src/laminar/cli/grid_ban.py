"""Ban a node: it is given nothing and listened to no more. --undo lets it come back, as one of whom nothing is known."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from laminar.cli.grid_look import On, tell
from laminar.cli.output import Json, print_json, say


def run(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its number, name, or the beginning of its id.")],
    why: Annotated[str, typer.Option("--why", help="Shown to whoever looks, and to the node.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="It may come back.")] = False,
    on: On = None,
    json: Json = False,
) -> None:
    told = tell(on, f"/v1/admin/nodes/{quote(node, safe='')}/{'unban' if undo else 'ban'}", {"why": why})
    if json:
        print_json(told)
    else:
        say(f"node {told['number']} ({told['name']}, {told['id']}) {'may come back' if undo else 'is banned'}")
