"""Uploads: the bytes of answers, in pieces as they came, until they are used. A node whose line broke goes on where it was."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import bindparam, func, select

from laminar.grid.db import bulk
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import pieces
from laminar.grid.db.tx import Tx

_SIZE: Final = Prepared(select(func.coalesce(func.sum(func.length(pieces.c.data)), 0)).where(pieces.c.result == bindparam("r")))


def size(tx: Tx, result: int) -> int:
    """Bytes that are here."""
    return int(_SIZE.value(tx, r=result))


def add(tx: Tx, result: int, at: int, data: bytes) -> None:
    """Written with all others at the end of the transaction."""
    tx.sheets.pieces.setdefault(result, []).append((at, data))


def read(tx: Tx, result: int) -> bytes:
    return read_all(tx, [result])[result]


def read_all(tx: Tx, ids: Collection[int]) -> dict[int, bytes]:
    pending = tx.sheets.pieces
    whole = {id: b"".join(data for _, data in pending[id]) for id in ids if id in pending and pending[id][0][0] == 0}
    others = [id for id in ids if id not in whole]
    if any(id in pending for id in others):
        tx.sheets.flush(tx)
    found: dict[int, list[tuple[int, bytes]]] = {id: [] for id in others}
    for id, at, data in bulk.read(tx, pieces, "result", others):
        found[id].append((at, data))
    return whole | {id: b"".join(data for _, data in sorted(parts)) for id, parts in found.items()}


def drop(tx: Tx, ids: Collection[int]) -> None:
    pending = tx.sheets.pieces
    bulk.remove(tx, pieces, "result", [id for id in ids if id not in pending or pending[id][0][0] > 0])
    for id in ids:
        pending.pop(id, None)
