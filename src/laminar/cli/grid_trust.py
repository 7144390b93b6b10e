"""Trust a node: its answers are taken without comparison, and settle what others disagree about. --undo: as any other again."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from laminar.cli.grid_look import On, tell
from laminar.cli.output import Json, print_json, say


def run(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its number, name, or the beginning of its id.")],
    undo: Annotated[bool, typer.Option("--undo", help="As any other again.")] = False,
    on: On = None,
    json: Json = False,
) -> None:
    told = tell(on, f"/v1/admin/nodes/{quote(node, safe='')}/{'distrust' if undo else 'trust'}")
    if json:
        print_json(told)
    else:
        say(f"node {told['number']} ({told['name']}, {told['id']}) is {'trusted' if told['trusted'] else 'one of many'}")
