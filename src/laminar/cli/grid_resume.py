"""Go on with a run that was paused, or with all; or, with --node, let this machine's node work again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.grid_look import On, tell
from laminar.cli.output import Json, print_json, say


def run(
    training: Annotated[str | None, typer.Argument(metavar="RUN", help="All of them if left out.")] = None,
    node: Annotated[bool, typer.Option("--node", help="The node on this machine, in the place of runs.")] = False,
    home: Annotated[Path | None, typer.Option("--home", metavar="DIR", help="The folder of that node; says --node, too.")] = None,
    on: On = None,
    json: Json = False,
) -> None:
    if node or home is not None:  # only a node has a home
        from laminar.grid.node.home import home_of_node

        place = home_of_node(home)
        (place.root / "paused").unlink(missing_ok=True)
        if json:
            print_json({"home": str(place.root), "paused": False})
            return
        say(f"the node in {place.root} may work")
        return
    told = tell(on, "/v1/admin/resume", {"run": training})
    if json:
        print_json(told)
    else:
        say(f"goes on: {', '.join(told['runs']) or 'nothing was paused'}")
