"""Uploads: the bytes of answers, in pieces as they came, until they are used. A node whose line broke goes on where it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select

from laminar.grid.db.book import Tx
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import pieces

_SIZE: Final = Prepared(select(func.coalesce(func.sum(func.length(pieces.c.data)), 0)).where(pieces.c.result == bindparam("r")))
_ADD: Final = Prepared(insert(pieces).values(result=bindparam("r"), at=bindparam("a"), data=bindparam("d")))
_READ: Final = Prepared(select(pieces.c.data).where(pieces.c.result == bindparam("r")).order_by(pieces.c.at))
_DROP: Final = Prepared(delete(pieces).where(pieces.c.result == bindparam("r")))


def size(tx: Tx, result: int) -> int:
    """Bytes that are here."""
    return int(_SIZE.value(tx, r=result))


def add(tx: Tx, result: int, at: int, data: bytes) -> None:
    _ADD.execute(tx, r=result, a=at, d=data)


def read(tx: Tx, result: int) -> bytes:
    rows = _READ.values(tx, r=result)
    return bytes(rows[0]) if len(rows) == 1 else b"".join(bytes(row) for row in rows)


def drop(tx: Tx, ids: Iterable[int]) -> None:
    for id in ids:
        _DROP.change(tx, r=id)
