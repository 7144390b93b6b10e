"""An HTML page with the layers and the curves of their training; it needs no network to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.stack.project import open_project
from laminar.stack.report import write_report


def run(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    json: Json = False,
) -> None:
    project = open_project()
    written = write_report(project.need_file(), project.open_store(create=False), out)
    if json:
        print_json({"file": str(written)})
    else:
        say(f"wrote {written}")
