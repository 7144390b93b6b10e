"""Purger: tasks that ended long ago, with their results. What is counted of them stays (db/runs.py)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, select

from laminar.grid.db.book import Tx
from laminar.grid.db.schema import results, tasks
from laminar.grid.states import OVER, TaskState

AFTER: Final = 7 * 86400.0  # seconds
MOST: Final = 100_000  # tasks that are kept at least
AT_ONCE: Final = 500


def purge(tx: Tx, now: float, *, after: float = AFTER, most: int = MOST) -> int:
    """How many tasks."""
    newest = tx.execute(select(tasks.c.id).order_by(tasks.c.id.desc()).offset(most).limit(1)).scalar()
    ended = tasks.c.state != TaskState.OPEN.value
    old = (tasks.c.made < now - after) if newest is None else (tasks.c.made < now - after) | (tasks.c.id <= newest)
    alive = (
        select(results.c.task)
        .where(
            results.c.state.not_in([*[state.value for state in OVER], "lost"]) | results.c.todo.is_not(None) | (results.c.used == "with")
        )
        .where(results.c.task == tasks.c.id)
        .exists()
    )
    ids = tx.execute(select(tasks.c.id).where(ended, old, ~alive).limit(AT_ONCE)).scalars().all()
    if ids:
        tx.execute(delete(results).where(results.c.task.in_(ids)))
        tx.execute(delete(tasks).where(tasks.c.id.in_(ids)))
    return len(ids)
