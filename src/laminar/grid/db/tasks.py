"""Tasks and their results: making them, finding those that wait, giving them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, or_, select, update

from laminar.grid.db.book import Tx
from laminar.grid.db.moves import move
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import nodes, results, runs, tasks
from laminar.grid.states import ResultState, TaskState

VALIDATE, ASSIMILATE, DELETE = "validate", "assimilate", "delete"  # what is to do with a result
FIRST, CHECK, AGAIN = 0, 1, 2  # priorities: what is to be compared, and what was lost, comes first
S: Final = ResultState
_COUNT: Final = select(func.count()).select_from(results)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A result that waits for a node."""

    result: int
    task: int
    run: int
    sample: int | None
    fresh: bool  # nobody else has had the task
    check: bool  # it is to be compared with another's answer


# Making

_ANOTHER: Final = Prepared(
    insert(results).values(
        task=bindparam("t"),
        run=bindparam("r"),
        state=S.UNSENT.value,
        priority=bindparam("p"),
        check=bindparam("c"),
        verdict="",
        bytes=0,
    )
)


def make(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    """Tasks, each with its first result."""
    if not rows:
        return
    ids = tx.execute(insert(tasks).returning(tasks.c.id, sort_by_parameter_order=True), list(rows)).scalars().all()
    tx.execute(
        insert(results),
        [{"task": id, "run": row["run"], "state": S.UNSENT.value, "priority": FIRST} for id, row in zip(ids, rows, strict=True)],
    )


def another(tx: Tx, task: int, run: int, *, priority: int, check: bool = False) -> None:
    """One more result of a task."""
    _ANOTHER.execute(tx, t=task, r=run, p=priority, c=check)


# Giving out

_WAITING: Final = Prepared(
    select(results.c.id, results.c.task, results.c.run, tasks.c.sample, results.c.priority, results.c.check)
    .join(tasks, tasks.c.id == results.c.task)
    .join(runs, runs.c.id == results.c.run)
    .where(results.c.state == S.UNSENT.value, runs.c.state == "open", results.c.priority == bindparam("p"))
    .order_by(results.c.id)
    .limit(bindparam("most"))
)
_UNSENT: Final = Prepared(_COUNT.where(results.c.run == bindparam("r"), results.c.state == S.UNSENT.value, results.c.priority == FIRST))
_MINE: Final = Prepared(
    select(results.c.id, results.c.task, results.c.run, results.c.lease, results.c.sent)
    .where(results.c.node == bindparam("n"), results.c.state == S.IN_PROGRESS.value)
    .order_by(results.c.id)
)
_HAD: Final = Prepared(select(results.c.id).where(results.c.task == bindparam("t"), results.c.node == bindparam("n")).limit(1))
_HAD_BY_OWNER: Final = Prepared(
    select(results.c.id)
    .outerjoin(nodes, nodes.c.id == results.c.node)
    .where(results.c.task == bindparam("t"), or_(results.c.node == bindparam("n"), nodes.c.token == bindparam("o")))
    .limit(1)
)


def waiting(tx: Tx, limit: int) -> list[Waiting]:
    """What was lost first, then checks, then fresh ones; of each so many, for checks that nobody may take must not hide the rest."""
    rows = [row for priority in (AGAIN, CHECK, FIRST) for row in _WAITING.rows(tx, p=priority, most=limit)]
    return [Waiting(row.id, row.task, row.run, row.sample, row.priority == FIRST, bool(row.check)) for row in rows]


def unsent(tx: Tx, run: int) -> int:
    """Fresh tasks that wait."""
    return int(_UNSENT.value(tx, r=run))


def held_by(tx: Tx, node: str) -> list[Any]:
    """Results that a node was given and has not answered."""
    return _MINE.rows(tx, n=node)


def had_by(tx: Tx, task: int, node: str, owner: int | None) -> bool:
    """Has this node, or another of its owner, had the task?"""
    if owner is None:
        return _HAD.value(tx, t=task, n=node) is not None
    return _HAD_BY_OWNER.value(tx, t=task, n=node, o=owner) is not None


def give(tx: Tx, result: int, node: str, *, now: float, lease: float) -> bool:
    return move(tx, result, S.IN_PROGRESS, node=node, sent=now, lease=now + lease)


# Looking

_TASK: Final = Prepared(select(tasks).where(tasks.c.id == bindparam("i")))
_TASK_LOCKED: Final = Prepared(select(tasks).where(tasks.c.id == bindparam("i")).with_for_update())
_RESULT: Final = Prepared(
    select(
        results.c.id,
        results.c.task,
        results.c.run,
        results.c.node,
        results.c.state,
        results.c.bytes,
        tasks.c.version,
        tasks.c.round,
        tasks.c.steps,
        tasks.c.state.label("task_state"),
    )
    .join(tasks, tasks.c.id == results.c.task)
    .where(results.c.id == bindparam("i"))
)
_RESULTS_OF: Final = Prepared(
    select(
        results.c.id, results.c.node, results.c.state, results.c.used, results.c.sketch, results.c.returned, nodes.c.trusted, nodes.c.streak
    )
    .outerjoin(nodes, nodes.c.id == results.c.node)
    .where(results.c.task == bindparam("t"))
    .order_by(results.c.returned, results.c.id)
)


def task(tx: Tx, id: int, *, lock: bool = False) -> Any:
    """`lock`: nobody else decides about it until the end of the transaction (PostgreSQL; SQLite has one writer anyway)."""
    return (_TASK_LOCKED if lock else _TASK).row(tx, i=id)


def change(tx: Tx, id: int, **columns: Any) -> None:
    _change_task(tuple(sorted(columns))).change(tx, i=id, **{f"v_{name}": value for name, value in columns.items()})


@lru_cache(maxsize=64)
def _change_task(columns: tuple[str, ...]) -> Prepared:
    return Prepared(update(tasks).where(tasks.c.id == bindparam("i")).values({name: bindparam(f"v_{name}") for name in columns}))


def result(tx: Tx, id: int) -> Any:
    """A result with what its task says; None if there is none."""
    return _RESULT.row(tx, i=id)


def results_of(tx: Tx, task: int) -> list[Any]:
    """In the order in which they came."""
    return _RESULTS_OF.rows(tx, t=task)


# What is to do

_TO_DO: Final = select(results.c.id, results.c.task, results.c.run, results.c.node, results.c.state).where(results.c.todo == bindparam("w"))
_TO_DO_ALL: Final = Prepared(_TO_DO.order_by(results.c.id).limit(bindparam("most")))
_TO_DO_CLAIM: Final = Prepared(_TO_DO.order_by(results.c.id).limit(bindparam("most")).with_for_update(skip_locked=True))
_TO_DO_RUN: Final = Prepared(_TO_DO.where(results.c.run == bindparam("r")).order_by(results.c.id).limit(bindparam("most")))
_EXPIRED: Final = Prepared(
    select(results.c.id, results.c.task, results.c.run, results.c.node)
    .where(results.c.state == S.IN_PROGRESS.value, results.c.lease < bindparam("now"))
    .order_by(results.c.lease)
    .limit(bindparam("most"))
)
_NEXT_LEASE: Final = Prepared(select(func.min(results.c.lease)).where(results.c.state == S.IN_PROGRESS.value))
_UNTOLD: Final = Prepared(
    select(results.c.id, results.c.state, results.c.used)
    .where(results.c.tell == bindparam("n"), results.c.todo.is_(None))
    .order_by(results.c.id)
    .limit(64)
)


def to_do(tx: Tx, what: str, *, run: int | None = None, limit: int = 256, claim: bool = False) -> list[Any]:
    """Results that a daemon is to look at. `claim`: rows that another process has taken are passed over (PostgreSQL)."""
    if run is not None:
        return _TO_DO_RUN.rows(tx, w=what, r=run, most=limit)
    return (_TO_DO_CLAIM if claim else _TO_DO_ALL).rows(tx, w=what, most=limit)


def mark(tx: Tx, ids: Iterable[int], **columns: Any) -> None:
    statement = _mark(tuple(sorted(columns)))
    values = {f"v_{name}": value for name, value in columns.items()}
    for id in ids:
        statement.change(tx, i=id, **values)


@lru_cache(maxsize=64)
def _mark(columns: tuple[str, ...]) -> Prepared:
    return Prepared(update(results).where(results.c.id == bindparam("i")).values({name: bindparam(f"v_{name}") for name in columns}))


def expired(tx: Tx, now: float, limit: int = 512) -> list[Any]:
    return _EXPIRED.rows(tx, now=now, most=limit)


def next_lease(tx: Tx) -> float | None:
    found = _NEXT_LEASE.value(tx)
    return None if found is None else float(found)


def untold(tx: Tx, node: str) -> list[Any]:
    """Verdicts that the node does not know yet."""
    return _UNTOLD.rows(tx, n=node)


# The end of a round or run

_OPEN: Final = select(tasks.c.id).where(tasks.c.run == bindparam("r"), tasks.c.state == TaskState.OPEN.value).order_by(tasks.c.id)
_OPEN_RUN, _OPEN_ROUND = Prepared(_OPEN), Prepared(_OPEN.where(tasks.c.round == bindparam("n")))


def open_tasks(tx: Tx, run: int, round: int | None = None) -> list[int]:
    return _OPEN_RUN.values(tx, r=run) if round is None else _OPEN_ROUND.values(tx, r=run, n=round)


def by_state(tx: Tx, run: int | None = None) -> dict[str, int]:
    query = select(results.c.state, func.count()).group_by(results.c.state)
    return {state: int(number) for state, number in tx.execute(query.where(results.c.run == run) if run is not None else query)}
