"""Tx: a transaction. What it has read, and what it will write at its end, is kept with it (sheets.py, runs.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from sqlalchemy import Connection, Executable

from laminar.grid.db.sheets import Sheets
from laminar.grid.utilization import Times

if TYPE_CHECKING:
    from laminar.grid.db.runs import Run

Hook = Callable[[str], None]


@final
class Tx:
    __slots__ = ("connection", "counts", "hook", "name", "norms", "raw", "runs", "secret", "sheets", "times")

    def __init__(self, connection: Connection, hook: Hook | None) -> None:
        """`hook`: called with every statement before it is executed."""
        self.connection, self.hook = connection, hook
        self.name = connection.dialect.name
        self.raw: Any = connection.connection.driver_connection  # for statements that SQLAlchemy need not make anew each time
        self.sheets = Sheets()
        self.runs: dict[int, Run] = {}  # that were read
        self.secret: int | None = None  # of this database (daemons/accounting.py)
        self.counts: dict[tuple[int, str], int] = {}  # to be added to
        self.times: dict[tuple[int, int, str], Times] = {}  # of run, round and node, to be added to (times.py)
        self.norms: dict[int, list[float]] = {}  # of good answers to runs (tasks.py)

    def execute(self, statement: Executable, values: Any = None) -> Any:
        """It sees what is pending, and what it changes is read anew."""
        self.sheets.flush(self)
        if getattr(statement, "is_dml", False):
            self.sheets.changed_beside(statement.table.name, insert=statement.is_insert)  # type: ignore[attr-defined]
        return self.connection.execute(statement, values)
