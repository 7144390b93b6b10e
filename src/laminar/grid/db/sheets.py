"""Sheets: rows that a transaction has read, and what it will write of them at its end (a unit of work: Fowler, "Patterns of Enterprise
Application Architecture", 2002).

A hundred requests share a transaction (desk.py). Each of them reads a node, a result and its task, and changes some columns, some of them
several times on a result's way from "in progress" to "valid". Here a row is read once, with all others that will be needed, changed in
memory, and written once, with all others of which the same columns were changed.

Nobody need know: before a statement reads a table, what is pending is written (prepared.py, tx.py); after a statement that changes one,
its rows are read anew. On PostgreSQL rows are locked when they are read, so what is computed from them holds. Locks are taken in one order:
run, tasks, results, nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import make_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, final

from sqlalchemy import Table

from laminar.grid.db import bulk
from laminar.grid.db.schema import nodes, pieces, results, tasks

if TYPE_CHECKING:
    from laminar.grid.db.tx import Tx

_ROWS: Final[dict[str, Any]] = {
    table.name: make_dataclass(f"Row_{table.name}", [column.name for column in table.columns], slots=True, eq=False)
    for table in (tasks, results, nodes)
}


@final
class Sheet:
    """One table's. The key of each is called id, and is its first column."""

    def __init__(self, table: Table) -> None:
        self.table, self._row = table, _ROWS[table.name]
        self.rows: dict[Any, Any] = {}  # None: there is none, or another transaction has it
        self._absent: set[Any] = set()  # those
        self._changed: dict[Any, set[str]] = {}

    def load(self, tx: Tx, keys: Collection[Any], *, by: str = "id", where: str = "", skip: bool = False) -> list[Any]:
        """Rows of these keys, or with these values in a column `by` that never changes. Rows that are known stay as they are here.

        `skip`: not those that another transaction has.
        """
        if by == "id":
            keys = [key for key in keys if key not in self.rows]
            if not keys:
                return []
            self.rows.update(dict.fromkeys(keys))
            self._absent.update(keys)
        found, rows = [], self.rows
        for values in bulk.read(tx, self.table, by, keys, where=where, lock="skip" if skip else "wait"):
            row = rows.get(values[0])
            if row is None:
                row = rows[values[0]] = self._row(*values)
                self._absent.discard(values[0])
            found.append(row)
        return found

    def made(self, values: Sequence[Any]) -> Any:
        """A row that is only looked at: it is not kept."""
        return self._row(*values)

    def get(self, tx: Tx, key: Any) -> Any:
        if key not in self.rows:
            self.load(tx, (key,))
        return self.rows[key]

    def change(self, row: Any, **columns: Any) -> None:
        for name, value in columns.items():
            setattr(row, name, value)
        if row.id in self._changed:
            self._changed[row.id].update(columns)
        else:
            self._changed[row.id] = set(columns)

    @property
    def pending(self) -> bool:
        return bool(self._changed)

    def flush(self, tx: Tx) -> None:
        groups: dict[tuple[str, ...], list[Any]] = {}
        for key in sorted(self._changed):
            groups.setdefault(tuple(sorted(self._changed[key])), []).append(self.rows[key])
        self._changed.clear()
        for columns, rows in groups.items():
            values = attrgetter(*columns, "id")
            bulk.change(tx, self.table, columns, [values(row) for row in rows])

    def forget(self, *, absent: bool = False) -> None:
        """`absent`: only that there are none."""
        for key in self._absent if absent else list(self.rows):
            del self.rows[key]
        self._absent.clear()


@final
class Sheets:
    """Of one transaction."""

    def __init__(self) -> None:
        self.tasks, self.results, self.nodes = Sheet(tasks), Sheet(results), Sheet(nodes)
        self._all: Final = {sheet.table.name: sheet for sheet in (self.tasks, self.results, self.nodes)}
        self.of_task: dict[int, list[Any]] = {}  # all results of a task, where they are known
        self.held: dict[str, list[Any]] = {}  # results that nodes have, as they were when the transaction began
        self.untold: dict[str, list[Any]] = {}  # results whose verdict nodes do not know
        self.pieces: dict[int, list[tuple[int, bytes]]] = {}  # of uploads, to be written (uploads.py)
        self.answered: dict[int, int] = {}  # tasks with new answers, for the validator, and their runs

    def changed_beside(self, table: str, *, insert: bool) -> None:
        """A statement changes the table."""
        sheet = self._all.get(table)
        if sheet is not None:
            sheet.forget(absent=insert)
            self.of_task.clear()
            self.held.clear()
            self.untold.clear()

    def flush(self, tx: Tx) -> None:
        for sheet in self._all.values():
            if sheet.pending:
                sheet.flush(tx)
        if self.pieces:
            rows = [(result, at, data) for result, parts in self.pieces.items() for at, data in parts]
            self.pieces.clear()
            bulk.add(tx, pieces, ("result", "at", "data"), rows)


def load_tasks(tx: Tx, ids: Iterable[int], *, skip: bool = False) -> None:
    """Tasks with all of their results. `skip`: without those that another transaction has."""
    here = tx.sheets
    missing = [id for id in dict.fromkeys(ids) if id not in here.of_task]
    if not missing:
        return
    here.tasks.load(tx, missing, skip=skip)
    missing = [id for id in missing if here.tasks.rows[id] is not None]
    here.of_task.update({id: [] for id in missing})
    for row in here.results.load(tx, missing, by="task"):
        here.of_task[row.task].append(row)


def load_nodes(tx: Tx, ids: Iterable[str]) -> None:
    """Nodes, and those who have had a result of the tasks that are loaded: whoever judges an answer writes to its node."""
    here = tx.sheets
    here.nodes.load(tx, {*ids, *(row.node for rows in here.of_task.values() for row in rows if row.node is not None)})
