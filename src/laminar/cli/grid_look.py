"""What a verb that looks at a grid has in common with the others: which grid, and as JSON or as a table."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from laminar.core.errors import LaminarError
from laminar.stack.project import open_project

On = Annotated[str | None, typer.Option("--on", metavar="WHERE", help="grid://HOST:PORT; else the grid that is served from this folder.")]


def ask(on: str | None, path: str) -> Any:
    with_commands = commander(on)
    try:
        return with_commands.get(path)
    finally:
        with_commands.close()


def tell(on: str | None, path: str, body: Any = None) -> Any:
    with_commands = commander(on)
    try:
        return with_commands.post(path, body)
    finally:
        with_commands.close()


def commander(on: str | None) -> Any:
    from laminar.grid.extra import need_grid

    need_grid()
    from laminar.grid.commander import commander_of

    try:
        folder = open_project().open_store(create=False).root / "grid"
    except LaminarError:  # no project, or none that has built anything: then no grid is served from here
        folder = None
    return commander_of(folder, on)


def ago(then: float | None) -> str:
    if then is None:
        return "-"
    past = max(0.0, time.time() - then)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if past >= 2 * size:
            return f"{past / size:.0f} {unit}"
    return f"{past:.0f} s"


PARTS = ("computing", "transfer", "waiting", "paused", "wasted")  # of nodes' time, as columns


def parts(utilization: dict[str, float]) -> list[str]:
    """In per cent; nothing where nothing was reported."""
    return [f"{utilization[part]:.0%}" if utilization["seconds"] else "-" for part in PARTS]
