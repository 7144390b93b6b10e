"""Give out nothing more of a run, or of all, until `laminar grid resume`; or, with --node, let this machine's node rest."""

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
        (place.root / "paused").touch()
        if json:
            print_json({"home": str(place.root), "paused": True})
            return
        again = "laminar grid resume --node" + (f" --home {home}" if home is not None else "")
        say(f"the node in {place.root} rests until `{again}`")
        return
    told = tell(on, "/v1/admin/pause", {"run": training, "why": "by command"})
    if json:
        print_json(told)
    else:
        say(f"paused: {', '.join(told['runs']) or 'nothing was open'}")
