"""Transitioner: sees what time does. Leases that ended without an answer are lost, and somebody else is asked; rounds have a deadline."""

from __future__ import annotations

from collections import Counter

from laminar.grid.daemons.rounds import wind_up
from laminar.grid.daemons.validator import replace
from laminar.grid.db import nodes, runs, tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.moves import move
from laminar.grid.db.runs import Run
from laminar.grid.states import ResultState, TaskState


def expire(tx: Tx, now: float) -> int:
    """Leases that have ended; how many."""
    rows = [row for row in tasks.expired(tx, now) if move(tx, row.id, ResultState.LOST, verdict="its lease ended")]
    nodes.lost(tx, dict(Counter(row.node for row in rows)))
    for row in rows:
        run = runs.get(tx, row.run)
        if run is not None:
            runs.count(tx, run.id, lost=1)
            again(tx, run, row.task, now)
    return len(rows)


def again(tx: Tx, run: Run, id: int, now: float) -> None:
    """A result of the task came to nothing: another one, if it is still of use."""
    task = tasks.task(tx, id)
    rows = tasks.results_of(tx, id)
    if task.state != TaskState.OPEN.value:
        return
    rounds = run.settings.grid.mode == "rounds"
    over = run.state not in ("open", "paused") or (rounds and run.round != task.round)
    if not over:
        replace(tx, run, id, rows, now, needs=task.needs)
    else:
        wind_up(tx, run, id, "its round is over", now, wait=False)


def next_time(tx: Tx) -> float | None:
    """When there will be something to see."""
    times = [run.wakes for run in runs.all_of(tx, "open") if run.wakes is not None]
    lease = tasks.next_lease(tx)
    return min([*times, *([] if lease is None else [lease])], default=None)
