"""Tasks and their results: making them, finding those that wait, giving them out. Rows are kept in sheets.py until the transaction ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, literal_column, select

from laminar.grid.db import bulk
from laminar.grid.db.moves import move
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import IN_PROGRESS, UNSENT, results, runs, tasks
from laminar.grid.db.sheets import load_nodes, load_tasks
from laminar.grid.db.times import waste
from laminar.grid.db.tx import Tx
from laminar.grid.states import ResultState, TaskState

VALIDATE, ASSIMILATE, DELETE = "validate", "assimilate", "delete"  # what is to do with a result
FIRST, CHECK, AGAIN = 0, 1, 2  # priorities: what is to be compared, and what was lost, comes first
LATELY: Final = 10_000  # results that are looked back at
S: Final = ResultState


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

_TASK: Final = {column.name: None if column.default is None else column.default.arg for column in tasks.columns if column.name != "id"}  # type: ignore[attr-defined]


def make(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    """Tasks, each with its first result."""
    if not rows:
        return
    tx.sheets.changed_beside(tasks.name, insert=True)
    tx.sheets.changed_beside(results.name, insert=True)
    known = [{**_TASK, **row} for row in rows]
    ids = bulk.number(tx, tasks, tuple(_TASK), [tuple(row[name] for name in _TASK) for row in known])
    columns = ("task", "run", "state", "priority", "check", "verdict", "bytes")
    values = [(id, row["run"], S.UNSENT.value, FIRST, False, "", 0) for id, row in zip(ids, rows, strict=True)]
    bulk.add(tx, results, columns, values)


def another(tx: Tx, task: int, run: int, *, priority: int, check: bool = False) -> None:
    """One more result of a task."""
    row = {"task": task, "run": run, "state": S.UNSENT.value, "priority": priority, "check": check}
    tx.execute(insert(results).values(row))


# Giving out

_WAITING: Final = Prepared(
    select(results.c.id, results.c.task, results.c.run, tasks.c.sample, results.c.priority, results.c.check)
    .join(tasks, tasks.c.id == results.c.task)
    .join(runs, runs.c.id == results.c.run)
    .where(literal_column(f"results.{UNSENT}"), runs.c.state == "open", results.c.priority == bindparam("p"))
    .order_by(results.c.id)
    .limit(bindparam("most"))
)
_UNSENT: Final = Prepared(
    select(func.count())
    .select_from(results)
    .where(literal_column(f"results.{UNSENT}"), results.c.run == bindparam("r"), results.c.priority == FIRST)
)


def waiting(tx: Tx, limit: int) -> list[Waiting]:
    """What was lost first, then checks, then fresh ones; of each so many, for checks that nobody may take must not hide the rest."""
    rows = [row for priority in (AGAIN, CHECK, FIRST) for row in _WAITING.rows(tx, p=priority, most=limit)]
    return [Waiting(row.id, row.task, row.run, row.sample, row.priority == FIRST, bool(row.check)) for row in rows]


def reach(tx: Tx, some: Collection[Waiting]) -> None:
    """Read these with their tasks, to be given out; those that another server is giving out stay away."""
    here = tx.sheets
    here.tasks.load(tx, {one.task for one in some}, skip=True)
    here.results.load(tx, [one.result for one in some], skip=True)
    load_tasks(tx, [one.task for one in some if not one.fresh], skip=True)


def reached(tx: Tx, one: Waiting) -> bool:
    here = tx.sheets
    return here.tasks.rows.get(one.task) is not None and here.results.rows.get(one.result) is not None


def unsent(tx: Tx, run: int) -> int:
    """Fresh tasks that wait."""
    return int(_UNSENT.value(tx, r=run))


def load_held(tx: Tx, nodes: Collection[str]) -> None:
    """What nodes were given, and what they were not told, for many of them at once."""
    here = tx.sheets
    missing = [node for node in nodes if node not in here.held]
    if not missing:
        return
    here.flush(tx)
    held: dict[str, list[Any]] = defaultdict(list)
    for values in bulk.read(tx, results, "node", missing, where=IN_PROGRESS):
        row = here.results.rows.get(values[0]) or here.results.made(values)
        held[row.node].append(row)
    untold: dict[str, list[Any]] = defaultdict(list)
    for row in here.results.load(tx, missing, by="tell", where="todo IS NULL", skip=True):
        untold[row.tell].append(row)
    for node in missing:
        here.held[node], here.untold[node] = held[node], untold[node]


def held_by(tx: Tx, node: str) -> list[Any]:
    """Results that a node was given and has not answered."""
    load_held(tx, [node])
    return [row for row in tx.sheets.held[node] if row.state == S.IN_PROGRESS.value]


def had_by(tx: Tx, task: int, node: str, owner: int | None) -> bool:
    """Has this node, or another of its owner, had the task?"""
    others = {row.node for row in results_of(tx, task) if row.node is not None}
    if owner is None or node in others:
        return node in others
    load_nodes(tx, others)
    known = tx.sheets.nodes.rows
    return any(known[one] is not None and known[one].token == owner for one in others)


def give(tx: Tx, result: int, node: str, *, now: float, lease: float) -> bool:
    if not move(tx, result, S.IN_PROGRESS, node=node, sent=now, lease=now + lease):
        return False
    here = tx.sheets
    if node in here.held:
        here.held[node].append(here.results.rows[result])
    return True


def prolong(tx: Tx, leases: Mapping[int, float]) -> None:
    """Results in progress, until when each. What another process has just now is left to it: the node is locked already, and results are to
    be locked before nodes."""
    sheet = tx.sheets.results
    sheet.load(tx, list(leases), skip=True)
    for id, lease in leases.items():
        row = sheet.rows[id]
        if row is not None and row.state == S.IN_PROGRESS.value:
            sheet.change(row, lease=lease)


# Looking


def task(tx: Tx, id: int) -> Any:
    """Nobody else decides about it until the end of the transaction (PostgreSQL; SQLite has one writer anyway)."""
    return tx.sheets.tasks.get(tx, id)


def change(tx: Tx, id: int, **columns: Any) -> None:
    sheet = tx.sheets.tasks
    sheet.change(sheet.get(tx, id), **columns)


def load_answers(tx: Tx, ids: Collection[int], first: Callable[[set[int]], None] = lambda _: None) -> None:
    """Results of which answers have come, with their tasks and what else belongs to these. `first`: to be called with their runs before
    anything is locked."""
    here = tx.sheets
    missing = [id for id in ids if id not in here.results.rows]
    known = bulk.read(tx, results, "id", missing, columns=("task", "run"))  # what it is a result of never changes
    first({run for _, run in known})
    load_tasks(tx, [task for task, _ in known])
    here.results.load(tx, missing)  # those that there are not


def result(tx: Tx, id: int) -> Any:
    """None if there is none."""
    if id not in tx.sheets.results.rows:
        load_answers(tx, [id])
    return tx.sheets.results.rows[id]


def results_of(tx: Tx, task: int) -> list[Any]:
    """In the order in which they came."""
    if task not in tx.sheets.of_task:
        load_tasks(tx, [task])
    found = tx.sheets.of_task.get(task, [])
    return found if len(found) == 1 else sorted(found, key=lambda row: (row.returned is None, row.returned, row.id))


_NORMS: Final = Prepared(
    select(results.c.norm)
    .where(results.c.id > select(func.max(results.c.id)).scalar_subquery() - LATELY, results.c.run == bindparam("r"))
    .where(results.c.state == S.VALID.value)
    .order_by(results.c.id.desc())
    .limit(bindparam("most")),
    stale=True,
)


def good_norms(tx: Tx, run: int, most: int) -> list[float]:
    """Of answers that were found good lately, before this transaction."""
    if run not in tx.norms:
        tx.norms[run] = _NORMS.values(tx, r=run, most=most)
    return tx.norms[run]


# What is to do

_TO_DO: Final = select(results.c.id, results.c.task, results.c.run).where(results.c.todo == bindparam("w"), results.c.todo.is_not(None))
_TO_DO_ALL: Final = Prepared(_TO_DO.order_by(results.c.id).limit(bindparam("most")))
_TO_DO_CLAIM: Final = Prepared(_TO_DO.order_by(results.c.id).limit(bindparam("most")).with_for_update(skip_locked=True))
_TO_DO_RUN: Final = Prepared(_TO_DO.where(results.c.run == bindparam("r")).order_by(results.c.id).limit(bindparam("most")))
_EXPIRED: Final = Prepared(
    select(results.c.id, results.c.task)
    .where(literal_column(f"results.{IN_PROGRESS}"), results.c.lease < bindparam("now"))
    .order_by(results.c.lease)
    .limit(bindparam("most"))
)
_NEXT_LEASE: Final = Prepared(select(func.min(results.c.lease)).where(literal_column(f"results.{IN_PROGRESS}")))


def to_do(tx: Tx, what: str, *, run: int | None = None, limit: int = 256, claim: bool = False) -> list[Any]:
    """Results that a daemon is to look at. `claim`: rows that another process has taken are passed over (PostgreSQL)."""
    if run is not None:
        return _TO_DO_RUN.rows(tx, w=what, r=run, most=limit)
    return (_TO_DO_CLAIM if claim else _TO_DO_ALL).rows(tx, w=what, most=limit)


def claim(tx: Tx, ids: Iterable[int]) -> list[int]:
    """Tasks that are ours until the end of the transaction, with their results and nodes; those that another process has are left to it."""
    wanted = list(dict.fromkeys(ids))
    load_tasks(tx, wanted, skip=True)
    load_nodes(tx, ())
    return [id for id in wanted if tx.sheets.tasks.rows[id] is not None]


def mark(tx: Tx, ids: Iterable[int], **columns: Any) -> None:
    sheet, wanted = tx.sheets.results, list(ids)
    sheet.load(tx, wanted)
    for id in wanted:
        if sheet.rows[id] is not None:
            sheet.change(sheet.rows[id], **columns)
            if columns.get("used") == "dropped":
                waste(tx, sheet.rows[id])


def expired(tx: Tx, now: float, limit: int = 512) -> list[Any]:
    """Results whose lease has ended, of tasks that are ours."""
    rows = _EXPIRED.rows(tx, now=now, most=limit)
    mine = set(claim(tx, [row.task for row in rows]))
    known = tx.sheets.results.rows
    return [known[row.id] for row in rows if row.task in mine]


def next_lease(tx: Tx) -> float | None:
    found = _NEXT_LEASE.value(tx)
    return None if found is None else float(found)


def untold(tx: Tx, node: str) -> list[Any]:
    """Verdicts that the node does not know yet."""
    load_held(tx, [node])
    return [row for row in tx.sheets.untold[node] if row.tell == node][:64]


def told(tx: Tx, node: str, ids: Iterable[int]) -> None:
    """The node knows these verdicts."""
    sheet, heard = tx.sheets.results, list(ids)
    sheet.load(tx, heard, skip=True)  # one that another server has at this moment is told again
    for row in [sheet.rows[id] for id in heard]:
        if row is not None and row.tell == node:
            sheet.change(row, tell=None)


# The end of a round or run

_OPEN: Final = select(tasks.c.id).where(tasks.c.run == bindparam("r"), tasks.c.state == TaskState.OPEN.value).order_by(tasks.c.id)
_OPEN_RUN, _OPEN_ROUND = Prepared(_OPEN), Prepared(_OPEN.where(tasks.c.round == bindparam("n")))


def open_tasks(tx: Tx, run: int, round: int | None = None) -> list[int]:
    """Read, with their results."""
    ids = _OPEN_RUN.values(tx, r=run) if round is None else _OPEN_ROUND.values(tx, r=run, n=round)
    load_tasks(tx, ids)
    return ids


def by_state(tx: Tx, run: int | None = None) -> dict[str, int]:
    query = select(results.c.state, func.count()).group_by(results.c.state)
    return {state: int(number) for state, number in tx.execute(query.where(results.c.run == run) if run is not None else query)}
