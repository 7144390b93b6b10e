"""Moves: the one way in which a result changes its state. A move that is not in the table (states.py) changes nothing, and says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from laminar.grid.db.times import waste
from laminar.grid.db.tx import Tx
from laminar.grid.states import BY_TASK, MOVES, VAIN, ResultState, TaskState

_LEGAL: Final = {(before.value, after) for before, possible in MOVES.items() for after in possible}


def move(tx: Tx, result: int, after: ResultState, **columns: Any) -> bool:
    """False: it was in a state from which it cannot come there, or somebody else has it."""
    sheet = tx.sheets.results
    row = sheet.get(tx, result)
    if row is None or (row.state, after) not in _LEGAL:
        return False
    sheet.change(row, state=after.value, **columns)
    if after in VAIN or columns.get("used") == "dropped":
        waste(tx, row)
    return True


def move_all(tx: Tx, ids: Iterable[int], after: ResultState, **columns: Any) -> int:
    """How many were moved."""
    return sum(move(tx, id, after, **columns) for id in ids)


def end_task(tx: Tx, task: int, after: TaskState) -> bool:
    """A task ends once."""
    sheet = tx.sheets.tasks
    row = sheet.get(tx, task)
    if row is None or after not in BY_TASK[TaskState(row.state)]:
        return False
    sheet.change(row, state=after.value)
    return True
