"""Prepared: a statement that is made once and executed many times.

SQLAlchemy writes the SQL, once for each kind of database; the driver executes it, without the 100 µs that building and compiling an
expression costs each time: a request of a node is half a dozen statements, and there are to be a thousand of them a second.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, cast, final

from sqlalchemy import Executable, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler

from laminar.grid.db.schema import nodes, pieces, results, tasks
from laminar.grid.db.tx import Tx

_SQLITE = sqlite.dialect(paramstyle="named")  # so that values go as they are named, not in an order to be looked up
_KEPT = (nodes, pieces, results, tasks)


@final
class Prepared:
    """`stale`: it may be executed before what is pending is written (sheets.py)."""

    __slots__ = ("_by_dialect", "_changes", "_reads", "_row", "_statement")

    def __init__(self, statement: Executable, *, stale: bool = False) -> None:
        self._statement = statement
        self._reads = not stale and any(one in _KEPT for one in visitors.iterate(cast(Any, statement)) if isinstance(one, Table))
        self._changes: Table | None = statement.table if getattr(statement, "is_dml", False) else None  # type: ignore[attr-defined]
        self._by_dialect: dict[str, tuple[str, dict[str, Any]]] = {}  # text, and values that are in the statement itself
        self._row: Any = None

    def _compile(self, tx: Tx) -> tuple[str, dict[str, Any]]:
        dialect = _SQLITE if tx.name == "sqlite" else tx.connection.dialect
        made = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(made, SQLCompiler)
        open_ones = {name for name, bound in made.binds.items() if bound.required or bound.value is None}
        found = str(made), {name: value for name, value in made.params.items() if name not in open_ones}
        self._by_dialect[tx.name] = found
        return found

    def execute(self, tx: Tx, **values: Any) -> Any:
        """The driver's cursor."""
        text, known = self._by_dialect.get(tx.name) or self._compile(tx)
        if self._reads:
            tx.sheets.flush(tx)
        if self._changes is not None:
            tx.sheets.changed_beside(self._changes.name, insert=self._statement.is_insert)
        if tx.hook is not None:
            tx.hook(text)
        if known:
            values.update(known)
        return tx.raw.execute(text, values)

    def rows(self, tx: Tx, **values: Any) -> list[Any]:
        cursor = self.execute(tx, **values)
        if self._row is None:
            self._row = _named([column[0] for column in cursor.description])._make
        return list(map(self._row, cursor.fetchall()))

    def row(self, tx: Tx, **values: Any) -> Any:
        """The first row; None if there is none."""
        cursor = self.execute(tx, **values)
        found = cursor.fetchone()
        if found is None:
            return None
        if self._row is None:
            self._row = _named([column[0] for column in cursor.description])._make
        return self._row(found)

    def value(self, tx: Tx, **values: Any) -> Any:
        """The first column of the first row; None if there is none."""
        found = self.execute(tx, **values).fetchone()
        return None if found is None else found[0]

    def values(self, tx: Tx, **values: Any) -> list[Any]:
        return [row[0] for row in self.execute(tx, **values).fetchall()]

    def change(self, tx: Tx, **values: Any) -> int:
        """How many rows were changed."""
        return int(self.execute(tx, **values).rowcount)


def _named(columns: list[str]) -> Any:
    return namedtuple("Row", columns, rename=True)
