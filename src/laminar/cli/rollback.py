"""Go back to the layer before, or to any earlier one; nothing is deleted, and `laminar redo` undoes it.

TARGET is head (one back), head~2, head@ID, or an id that a layer of this stack has been.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say
from laminar.core import digest
from laminar.stack.project import open_project
from laminar.stack.rollback import Moved, rollback


def run(
    target: Annotated[str, typer.Argument(help="head, head~2, head@ID or an id.")],
    write: Annotated[
        bool, typer.Option("--write", help="Also set laminar.toml back to what that layer was built with; comments are kept.")
    ] = False,
    json: Json = False,
) -> None:
    project = open_project()
    show_moved(rollback(project.need_file(), project.open_store(create=False), target, write=write), as_json=json)


def show_moved(moved: Moved, *, as_json: bool) -> None:
    if as_json:
        print_json(moved.to_json())
        return
    say(f"{moved.ref}: {digest.short(moved.before)} -> {digest.short(moved.after)}")
    for line in moved.wrote:
        say(f"laminar.toml: {line}")
    for note in moved.notes:
        say(note)
