"""Work generator: makes tasks. In rounds as many as the round has; async so many that whoever asks finds one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update

from laminar.core.seeds import derive
from laminar.grid.db import runs, tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.grid.db.schema import rounds
from laminar.grid.settings import position_of
from laminar.grid.states import TaskState


def generate(tx: Tx, run: Run, now: float) -> int:
    """How many tasks were made."""
    if run.settings.grid.mode == "async":
        missing = run.settings.grid.workers - tasks.unsent(tx, run.id)
        return _make(tx, run, missing, round=0, version=None, now=now) if missing > 0 else 0
    made = 0
    empty = select(rounds.c.round, rounds.c.version).where(rounds.c.run == run.id, rounds.c.closed.is_(None), rounds.c.tasks == 0)
    for row in tx.execute(empty).all():
        made += _make(tx, run, run.settings.grid.workers, round=row.round, version=row.version, now=now)
        tx.execute(update(rounds).where(rounds.c.run == run.id, rounds.c.round == row.round).values(tasks=run.settings.grid.workers))
    return made


def _make(tx: Tx, run: Run, number: int, *, round: int, version: int | None, now: float) -> int:
    settings, how = run.settings, run.settings.grid
    position, rows = run.position, []
    samples = how.samples or how.workers
    for _ in range(number):
        place = position_of(settings, position)
        ordinal = position // how.local_steps
        row: dict[str, Any] = {
            "run": run.id,
            "round": round,
            "version": version,
            "sample": derive(settings.recipe.seed, "local sample", ordinal % samples) % (1 << 31) if settings.local else None,
            "seed": derive(settings.recipe.seed, "grid task", position),
            "state": TaskState.OPEN.value,
            "needs": 1,
            "attempts": 1,
            "made": now,
            **place,
        }
        rows.append(row)
        position += place["steps"]
    tasks.make(tx, rows)
    runs.save(tx, run.id, position=position)
    runs.count(tx, run.id, tasks=number)
    return number
