"""Run some of a grid's daemons by themselves, on a database that a server elsewhere uses too, until Ctrl-C.

    laminar grid serve --database postgresql+psycopg://… --no-daemons
    laminar grid daemon validator assimilator --database postgresql+psycopg://…

Names: work-generator, transitioner, validator, assimilator, file-deleter, purger. Several of a kind share the rows between them.
"""

from __future__ import annotations

import logging
import signal
import threading
from typing import Annotated

import typer

from laminar.cli.output import remark
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean


def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Daemons to run; all: every one.")],
    database: Annotated[str, typer.Option("--database", metavar="URL", help="PostgreSQL; the same that the server has.")],
) -> None:
    from laminar.grid.extra import need_grid, use_one_thread

    need_grid()
    use_one_thread()
    from laminar.core.clock import SYSTEM
    from laminar.grid.daemons.assimilator import Assimilator
    from laminar.grid.daemons.learner import TorchLearner
    from laminar.grid.daemons.office import NAMES, Office
    from laminar.grid.db.book import Book
    from laminar.grid.desk import ThreadDesk

    known = {name.replace(" ", "-"): name for name in NAMES}
    chosen = list(known) if names == ["all"] else names
    for name in chosen:
        if name not in known:
            raise LaminarError(
                "L008", f"there is no daemon '{name}'; {did_you_mean(name, known)}", hint=f"one of {', '.join(known)}, or all"
            )
    if database.startswith("sqlite"):
        raise LaminarError(
            "L008", "SQLite is for one process: there, the server runs its daemons itself", hint="--database postgresql+psycopg://…"
        )
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    desk = ThreadDesk(Book.open(database))
    office = Office(desk, Assimilator(TorchLearner()), SYSTEM.now, only=[known[name] for name in chosen])
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    office.start()
    remark(f"{', '.join(chosen)}: Ctrl-C ends it; nothing is lost")
    stop.wait()
    office.close()
    desk.close()
