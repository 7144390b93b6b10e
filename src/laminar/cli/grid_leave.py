"""Leave a grid for good: give back what is unfinished, hand in what compression has kept back, and forget everything but the key.

A node that is started at login is started no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, remark, say


def run(
    home: Annotated[Path | None, typer.Option("--home", metavar="DIR", help="The folder of the node.")] = None,
    json: Json = False,
) -> None:
    from laminar.grid.extra import need_node

    need_node()
    from laminar.grid.node.at_login import entry_of, remove
    from laminar.grid.node.home import Home, default_home
    from laminar.grid.node.leave import leave

    place = Home(home or default_home())
    entry = entry_of(place.root.resolve())
    if remove(entry):  # first: whoever leaves means it, also where the server cannot be reached
        remark(f"it starts at login no more: {entry.path} is deleted")
    place.take()
    told = leave(place)
    if json:
        print_json(told)
    else:
        say(
            f"left: {told['brought']} answers brought, {told['given_back']} tasks given back, "
            f"{told['handed_in']} residuals handed in, {told['refused']} not taken"
        )
