"""Rounds: what the aggregator's actions do in the database. Used by whoever gives it an event: assimilator, transitioner, commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from laminar.grid.daemons.accounting import put_back
from laminar.grid.db import nodes, runs, tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.moves import end_task, move, move_all
from laminar.grid.db.runs import Run
from laminar.grid.states import ResultState, TaskState
from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import Action, Apply, CloseRound, Drop, OpenRound

ABOUT: Final = 4096  # nodes that are looked at
Learn = Callable[[Tx, Run, Apply, float], None]


def act(tx: Tx, run: Run, actions: Sequence[Action], now: float, learn: Learn) -> bool:
    """True if a version was made. Whoever calls keeps the aggregator's state (db/runs.py), in the same transaction."""
    stepped, parts = False, 0
    for action in actions:
        match action:
            case Apply():
                learn(tx, run, action, now)
                stepped, parts = True, len(action.parts)
            case Drop(payload, _, reason):
                drop(tx, run, int(payload), reason, now)
                runs.add(tx, run.id, {f"dropped {reason}": 1})
            case OpenRound():
                runs.open_round(
                    tx, run.id, action.round, version=action.version, opened=now, deadline=action.deadline, wanted=action.wanted
                )
            case CloseRound():
                answers = parts if action.stepped else 0
                runs.close_round(tx, run.id, action.round, closed=now, answers=answers, why=action.why, stepped=action.stepped)
                for id in tasks.open_tasks(tx, run.id, action.round):
                    wind_up(tx, run, id, "its round is over", now, wait=run.settings.grid.late == "age")
            case _:
                pass
    return stepped


def give_time(tx: Tx, run: Run, machine: Aggregator, now: float) -> None:
    """Its time is up, as the rules say. They count work: data is given the time beside it that it takes on the lines of nodes that are at
    work for the run, as they measured it; as long as a quorum of them needs, so a few who say to be slow hold up nobody."""
    if machine.wakes is None or machine.wakes > now:
        return
    traffic = run.settings.traffic
    seconds = sorted(traffic.seconds(up=up, down=down) for up, down in nodes.lines_of(tx, run.id, ABOUT))
    if seconds:
        machine.grant(seconds[math.ceil(run.settings.grid.quorum * len(seconds)) - 1])


def wind_up(tx: Tx, run: Run, id: int, why: str, now: float, *, wait: bool) -> None:
    """A task is needed no longer: nobody begins with it any more, and when nobody is at it, what came of it is late.

    `wait`: an answer that is here, and waits to be compared, may still be: late ones are of use.
    """
    rows = tasks.results_of(tx, id)
    if wait and any(row.state == ResultState.RETURNED for row in rows):
        return
    move_all(tx, [row.id for row in rows if row.state == ResultState.UNSENT], ResultState.GIVEN_UP, verdict=why)
    if not any(row.state == ResultState.IN_PROGRESS for row in rows):
        for row in rows:
            if row.state == ResultState.RETURNED:
                put_back(tx, run, row.node, row.id, now, accounted=True)
                move(tx, row.id, ResultState.LATE, verdict=why, used="dropped", todo=tasks.DELETE, tell=row.node)
        end_task(tx, id, TaskState.CANCELLED)


def drop(tx: Tx, run: Run, task: int, why: str, now: float) -> None:
    """The good answers to a task, which are used together or not at all, are not used."""
    for row in tasks.results_of(tx, task):
        if row.state == "valid" and row.used in (None, "with"):
            put_back(tx, run, row.node, row.id, now, accounted=True)
            tasks.mark(tx, [row.id], used="dropped", tell=row.node, verdict=why, todo=tasks.DELETE)
