"""Moves: the one way in which a result changes its state. A move that is not in the table (states.py) changes nothing, and says so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import bindparam, update

from laminar.grid.db.book import Tx
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import results, tasks
from laminar.grid.states import BY_TASK, ResultState, TaskState, sources


@lru_cache(maxsize=256)
def _move(after: ResultState, columns: tuple[str, ...]) -> Prepared:
    before = [results.c.state == state for state in sources(after)]
    which = before[0]
    for one in before[1:]:
        which = which | one
    changed: dict[str, Any] = {name: bindparam(f"v_{name}") for name in columns}
    return Prepared(update(results).where(results.c.id == bindparam("i"), which).values(state=after.value, **changed))


def move(tx: Tx, result: int, after: ResultState, **columns: Any) -> bool:
    """False: it was in a state from which it cannot come there, or somebody else has moved it."""
    if not sources(after):
        return False
    statement = _move(after, tuple(sorted(columns)))
    return statement.change(tx, i=result, **{f"v_{name}": value for name, value in columns.items()}) == 1


def move_all(tx: Tx, ids: Iterable[int], after: ResultState, **columns: Any) -> int:
    """How many were moved."""
    return sum(move(tx, id, after, **columns) for id in ids)


_END: Final = Prepared(
    update(tasks).where(tasks.c.id == bindparam("i"), tasks.c.state == TaskState.OPEN.value).values(state=bindparam("s"))
)


def end_task(tx: Tx, task: int, after: TaskState) -> bool:
    """A task ends once."""
    return after in BY_TASK[TaskState.OPEN] and _END.change(tx, i=task, s=after.value) == 1
