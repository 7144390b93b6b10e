"""Custody: what nodes that have left had kept back, until somebody goes on with it.

It comes in pieces, and is kept when all of it is here. Whoever takes it over can have it again, should the line break, until its next
answer says that it has it: then it is on its account only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, insert, select, update

from laminar.grid.db import versions
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import custody
from laminar.grid.db.tx import Tx

_MINE: Final = (custody.c.run == bindparam("r")) & (custody.c.node == bindparam("n"))
_DROP: Final = Prepared(delete(custody).where(_MINE))


def add(tx: Tx, run: int, node: str, at: int, data: bytes, now: float) -> None:
    tx.execute(insert(custody).values(run=run, node=node, at=at, data=data, whole=False, since=now))


def size(tx: Tx, run: int, node: str) -> int:
    """Bytes that are here of what is not whole yet."""
    return int(tx.execute(_pieces(run, node, func.coalesce(func.sum(func.length(custody.c.data)), 0))).scalar_one())


def read(tx: Tx, run: int, node: str) -> bytes:
    return b"".join(bytes(data) for data in tx.execute(_pieces(run, node, custody.c.data).order_by(custody.c.at)).scalars())


def _pieces(run: int, node: str, what: ColumnElement[Any]) -> Select[Any]:
    return select(what).where(custody.c.run == run, custody.c.node == node, ~custody.c.whole)


def drop(tx: Tx, run: int, node: str) -> None:
    """All that is here of the node."""
    _DROP.change(tx, r=run, n=node)


def keep(tx: Tx, run: int, node: str, data: bytes, now: float) -> None:
    drop(tx, run, node)
    tx.execute(insert(custody).values(run=run, node=node, at=0, data=data, whole=True, since=now))


def take(tx: Tx, run: int, node: str, now: float) -> bytes | None:
    """What this node has handed in or taken over before, or else what somebody has who is gone. With its account."""
    whole = select(custody.c.node, custody.c.data).where(custody.c.run == run, custody.c.whole)
    others = whole.where(~custody.c.taken).order_by(custody.c.since).limit(1)
    row = tx.execute(whole.where(custody.c.node == node)).first() or tx.execute(others).first()
    if row is None:
        return None
    if row.node != node:
        drop(tx, run, node)  # the beginning of something
    same = (custody.c.run == run) & (custody.c.node == row.node)
    tx.execute(update(custody).where(same).values(node=node, taken=True))
    versions.hand_over_account(tx, run, row.node, node, now)
    return bytes(row.data)


def drop_old(tx: Tx, ended: Collection[int], before: float) -> int:
    """Of runs that nobody goes on with, and what was begun before then and never became whole. How many rows."""
    old = ~custody.c.whole & (custody.c.since < before)
    return int(tx.execute(delete(custody).where(custody.c.run.in_(ended) | old)).rowcount)
