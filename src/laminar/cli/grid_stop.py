"""End a run before its time. What it has learned stays; the same training begun again goes on from there."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from laminar.cli.grid_look import On, tell
from laminar.cli.output import Json, print_json, say


def run(
    training: Annotated[str, typer.Argument(metavar="RUN", help="As `laminar grid status` shows it.")],
    on: On = None,
    json: Json = False,
) -> None:
    told = tell(on, f"/v1/admin/runs/{quote(training, safe='')}/stop")
    if json:
        print_json(told)
    else:
        say(f"{told['name']}: {told['state']} at version {told['version']}")
