"""Rounds: what the aggregator's actions do in the database. Used by whoever gives it an event: assimilator, transitioner, commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laminar.grid.db import runs, tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.parallel.aggregate.messages import Action, Apply, CloseRound, Drop, Hold, OpenRound

Learn = Callable[[Tx, Run, Apply, float], None]


def act(tx: Tx, run: Run, actions: Sequence[Action], now: float, learn: Learn) -> bool:
    """True if a version was made. Whoever calls keeps the aggregator's state (db/runs.py), in the same transaction."""
    stepped, parts = False, 0
    for action in actions:
        match action:
            case Apply():
                learn(tx, run, action, now)
                stepped, parts = True, len(action.parts)
            case Hold(payload):
                _mark(tx, payload, "held")
            case Drop(payload, _, reason):
                _mark(tx, payload, "dropped", why=reason)
                runs.add(tx, run.id, {f"dropped {reason}": 1})
            case OpenRound():
                runs.open_round(
                    tx, run.id, action.round, version=action.version, opened=now, deadline=action.deadline, wanted=action.wanted
                )
            case CloseRound():
                answers = parts if action.stepped else 0
                runs.close_round(tx, run.id, action.round, closed=now, answers=answers, why=action.why, stepped=action.stepped)
                tasks.cancel(tx, run.id, round=action.round, why="its round is over")
            case _:
                pass
    return stepped


def _mark(tx: Tx, payload: str, used: str, *, why: str | None = None) -> None:
    """A payload is a task: all good answers to it are used together."""
    ids = [row.id for row in tasks.results_of(tx, int(payload)) if row.state == "valid" and row.used in (None, "with", "held")]
    more = {} if why is None else {"verdict": why, "todo": tasks.DELETE}
    tasks.mark(tx, ids, used=used, told=False, **more)
