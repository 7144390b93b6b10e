"""Undo the last rollback, of the layer named or of the one rolled back last; laminar.toml too, if the rollback wrote it."""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json
from laminar.cli.rollback import show_moved
from laminar.stack.project import open_project
from laminar.stack.rollback import redo


def run(layer: Annotated[str | None, typer.Argument(help="A layer of the stack.")] = None, json: Json = False) -> None:
    project = open_project()
    show_moved(redo(project.need_file(), project.open_store(create=False), layer), as_json=json)
