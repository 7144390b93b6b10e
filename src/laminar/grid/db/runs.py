"""Runs, their rounds and their counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import counts, rounds, runs
from laminar.grid.db.tx import Tx
from laminar.grid.settings import Settings
from laminar.parallel.aggregate.aggregator import Aggregator


@dataclass(frozen=True)
class Run:
    id: int
    name: str
    layer: str
    state: str
    settings: Settings
    about: str
    version: int
    round: int
    since: int
    wakes: float | None
    sequence: int
    position: int
    made: float
    ended: float | None
    why: str


_COLUMNS: Final = [runs.c[name] for name in Run.__dataclass_fields__]
_BY_ID: Final = Prepared(select(*_COLUMNS).where(runs.c.id == bindparam("i")))
_FOR_UPDATE: Final = Prepared(select(*_COLUMNS).where(runs.c.id == bindparam("i")).with_for_update())
_BY_NAME: Final = Prepared(select(*_COLUMNS).where(runs.c.name == bindparam("n")))
_ALL: Final = Prepared(select(*_COLUMNS).order_by(runs.c.id))
_IN_STATE: Final = Prepared(select(*_COLUMNS).where(runs.c.state == bindparam("s")).order_by(runs.c.id))
_AGGREGATOR: Final = Prepared(select(runs.c.aggregator).where(runs.c.id == bindparam("i")))
_KEEP: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("i"))
    .values(
        aggregator=bindparam("a"),
        version=bindparam("v"),
        round=bindparam("r"),
        since=bindparam("s"),
        wakes=bindparam("w"),
        sequence=bindparam("q"),
    )
)
_DUE: Final = Prepared(select(runs.c.id).where(runs.c.state == "open", runs.c.wakes <= bindparam("now")))
_COUNT: Final = Prepared(
    update(counts).where(counts.c.run == bindparam("r"), counts.c.what == bindparam("w")).values(count=counts.c.count + bindparam("n"))
)
_COUNTS: Final = Prepared(select(counts.c.what, counts.c.count).where(counts.c.run == bindparam("r")))


@lru_cache(maxsize=64)
def _settings(text: str) -> Settings:
    return Settings.from_json(text)


def _run(row: Any) -> Run:
    found = row._asdict()
    found["settings"] = _settings(found["settings"])
    return Run(**found)


def get(tx: Tx, id: int, *, for_update: bool = False) -> Run | None:
    if id in tx.runs and not for_update:
        return tx.runs[id]
    row = (_FOR_UPDATE if for_update else _BY_ID).row(tx, i=id)
    if row is None:
        return None
    tx.runs[id] = _run(row)
    return tx.runs[id]


def named(tx: Tx, name: str) -> Run | None:
    row = _BY_NAME.row(tx, n=name)
    return None if row is None else _run(row)


def all_of(tx: Tx, state: str | None = None) -> list[Run]:
    return [_run(row) for row in (_ALL.rows(tx) if state is None else _IN_STATE.rows(tx, s=state))]


def save(tx: Tx, id: int, **columns: Any) -> None:
    tx.runs.pop(id, None)
    tx.execute(update(runs).where(runs.c.id == id).values(**columns))


# The aggregator


def aggregator(tx: Tx, run: Run) -> Aggregator:
    return Aggregator.load(run.settings.rules, msgspec.json.decode(_AGGREGATOR.value(tx, i=run.id)))


def keep_aggregator(tx: Tx, run: int, machine: Aggregator, *, sequence: int) -> None:
    """With what others ask for again and again, so that they need not read all of it."""
    state = machine.state()
    text = msgspec.json.encode(state).decode()
    open_round = state["round"] if state["open"] else -1
    tx.runs.pop(run, None)
    _KEEP.change(tx, i=run, a=text, v=machine.version, r=open_round, s=state["since"], w=machine.wakes, q=sequence)


def due(tx: Tx, now: float) -> list[int]:
    """Runs whose round, or buffer, has waited long enough."""
    return _DUE.values(tx, now=now)


# Rounds


def open_round(tx: Tx, run: int, number: int, *, version: int, opened: float, deadline: float | None, wanted: int) -> None:
    tx.execute(insert(rounds).values(run=run, round=number, version=version, opened=opened, deadline=deadline, wanted=wanted))


def close_round(tx: Tx, run: int, number: int, **columns: Any) -> None:
    tx.execute(update(rounds).where(rounds.c.run == run, rounds.c.round == number).values(**columns))


def forget_empty_round(tx: Tx, run: int) -> None:
    """One that opened when the last version was made, and in which nothing will happen."""
    tx.execute(delete(rounds).where(rounds.c.run == run, rounds.c.closed.is_(None), rounds.c.tasks == 0))


def rounds_of(tx: Tx, run: int, *, last: int | None = None) -> list[dict[str, Any]]:
    query = select(rounds).where(rounds.c.run == run).order_by(rounds.c.round.desc())
    rows = tx.execute(query.limit(last) if last is not None else query).mappings().all()
    return [dict(row) for row in reversed(rows)]


# Counts


def count(tx: Tx, run: int, **added: int) -> None:
    """Add to a run's counts; a name with underscores stands for one with blanks."""
    add(tx, run, {what.replace("_", " "): number for what, number in added.items()})


def add(tx: Tx, run: int, added: Mapping[str, int]) -> None:
    pending = tx.counts
    for what, number in added.items():
        pending[run, what] = pending.get((run, what), 0) + number


def flush_counts(tx: Tx) -> None:
    """At the end of a transaction: a count that a hundred requests have raised is written once."""
    pending = tx.counts
    for (run, what), number in pending.items():
        if not _COUNT.change(tx, r=run, w=what, n=number):
            tx.execute(insert(counts).values(run=run, what=what, count=number))
    pending.clear()


def counts_of(tx: Tx, run: int) -> dict[str, int]:
    flush_counts(tx)
    return {what: int(number) for what, number in _COUNTS.rows(tx, r=run)}
