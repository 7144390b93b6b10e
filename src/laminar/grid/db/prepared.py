"""Prepared: a statement that is made once and executed many times.

SQLAlchemy writes the SQL, once for each kind of database; the driver executes it, without the 100 µs that building and compiling an
expression costs each time: a request of a node is a dozen statements, and there are to be a thousand of them a second.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, final

from sqlalchemy import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from laminar.grid.db.book import Tx, hook_of


@final
class Prepared:
    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._by_dialect: dict[str, tuple[str, tuple[str, ...] | None, dict[str, Any]]] = {}
        self._row: Any = None

    def _compiled(self, tx: Tx) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
        found = self._by_dialect.get(tx.dialect.name)
        if found is None:
            made = self._statement.compile(dialect=tx.dialect)  # type: ignore[attr-defined]
            assert isinstance(made, SQLCompiler)
            order = tuple(made.positiontup) if made.positiontup is not None else None
            found = self._by_dialect[tx.dialect.name] = str(made), order, dict(made.params)
        return found

    def execute(self, tx: Tx, **values: Any) -> Any:
        """The driver's cursor."""
        text, order, known = self._compiled(tx)
        hook = hook_of(tx)
        if hook is not None:
            hook(text)
        given = {**known, **values}
        cursor = tx.connection.driver_connection.cursor()  # type: ignore[union-attr]
        cursor.execute(text, given if order is None else [given[name] for name in order])
        return cursor

    def rows(self, tx: Tx, **values: Any) -> list[Any]:
        cursor = self.execute(tx, **values)
        found = cursor.fetchall()
        if self._row is None:
            self._row = _named([column[0] for column in cursor.description])
        return [self._row(*row) for row in found]

    def row(self, tx: Tx, **values: Any) -> Any:
        """The first row; None if there is none."""
        found = self.rows(tx, **values)
        return found[0] if found else None

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
