"""Open the dashboard: layers, runs, plans and the grid of this folder's project as a local web page, until Ctrl-C.

It reads the store and what is beside it, and owns nothing itself: it can be started and ended at any time, also while a build runs. It
listens on this machine only, and the address that is printed has a token: whoever has it can look, roll back and tag. From another
machine, use  ssh -L PORT:localhost:PORT.
"""

from __future__ import annotations

import json as encoder
import logging
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, remark, say
from laminar.core.errors import LaminarError


def run(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = 8686,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    grid: Annotated[
        str | None, typer.Option("--grid", metavar="URL", help="A grid's server; the one of this project's store if left out.")
    ] = None,
    json: Json = False,
) -> None:
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"the dashboard needs {' and '.join(missing)}", hint="pip install 'laminar-train[ui]'")
    from laminar.dashboard.server import Dashboard

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    dashboard = Dashboard(Path.cwd(), port=port, grid=grid)

    def ready() -> None:
        if json:
            say(encoder.dumps({"url": dashboard.url}))
        else:
            say(f"dashboard: {dashboard.url}")
            remark("Ctrl-C ends it")
        if not no_open:
            webbrowser.open(dashboard.url)

    dashboard.run(ready)
