"""Write a commented laminar.toml and models.py that build as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.stack.init import TEMPLATES, init


def run(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path("."),
    template: Annotated[str, typer.Option("--template", "-t", help=" | ".join(TEMPLATES))] = "digits",
    json: Json = False,
) -> None:
    written = init(folder, template)
    if json:
        print_json({"folder": str(folder), "files": [str(path) for path in written]})
        return
    for path in written:
        say(f"wrote {path}")
    say(f"next: cd {folder} && laminar build" if folder != Path(".") else "next: laminar build")
