"""Versions of the models, files of the runs, and what nodes keep back (residuals)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from laminar.core import digest
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import files, residuals, results, tasks, versions
from laminar.grid.db.tx import Tx
from laminar.grid.states import ResultState


def put_file(tx: Tx, now: float, data: bytes) -> str:
    """One that is here already is as new as if it had come now: somebody is about to begin a run with it."""
    sha256 = digest.of_bytes(data)
    if not tx.execute(update(files).where(files.c.sha256 == sha256).values(at=now)).rowcount:
        tx.execute(insert(files).values(sha256=sha256, at=now, data=data))
    return sha256


def old_files(tx: Tx, before: float) -> list[str]:
    """Uploaded before then, the oldest first."""
    return list(tx.execute(select(files.c.sha256).where(files.c.at < before).order_by(files.c.at)).scalars())


def drop_files(tx: Tx, some: list[str], before: float) -> int:
    """But for those that another process has been sent again meanwhile (PostgreSQL). How many."""
    return int(tx.execute(delete(files).where(files.c.sha256.in_(some), files.c.at < before)).rowcount)


def get_file(tx: Tx, sha256: str) -> bytes | None:
    found = tx.execute(select(files.c.data).where(files.c.sha256 == sha256)).scalar()
    return None if found is None else bytes(found)


def put(tx: Tx, run: int, version: int, sha256: str, data: bytes, optimizer: bytes, now: float) -> None:
    """The newest version; the one before needs no optimizer any more."""
    tx.execute(update(versions).where(versions.c.run == run, versions.c.version == version - 1).values(optimizer=None))
    tx.execute(insert(versions).values(run=run, version=version, sha256=sha256, data=data, optimizer=optimizer, made=now))


_GET: Final = Prepared(select(versions).where(versions.c.run == bindparam("r"), versions.c.version == bindparam("v")))
_SHA: Final = Prepared(select(versions.c.sha256).where(versions.c.run == bindparam("r"), versions.c.version == bindparam("v")))


def get(tx: Tx, run: int, version: int) -> Any:
    """sha256, data, optimizer, made, metrics; None if there is none."""
    return _GET.row(tx, r=run, v=version)


def sha256_of(tx: Tx, run: int, version: int) -> str | None:
    found: str | None = _SHA.value(tx, r=run, v=version)
    return found


def tested(tx: Tx, run: int, version: int, metrics: dict[str, float]) -> bool:
    change = update(versions).where(versions.c.run == run, versions.c.version == version)
    return bool(tx.execute(change.values(metrics=msgspec.json.encode(metrics).decode())).rowcount)


def curve(tx: Tx, run: int) -> list[dict[str, Any]]:
    query = select(versions.c.version, versions.c.made, versions.c.metrics).where(versions.c.run == run).order_by(versions.c.version)
    return [
        {"version": row.version, "made": row.made, **(msgspec.json.decode(row.metrics) if row.metrics else {})} for row in tx.execute(query)
    ]


def forget(tx: Tx, run: int, *, newest: int) -> int:
    """The bytes of versions that nobody needs: neither the newest few nor one that somebody works on. How many."""
    busy = (
        select(tasks.c.version)
        .join(results, results.c.task == tasks.c.id)
        .where(results.c.run == run, results.c.state.in_([ResultState.UNSENT.value, ResultState.IN_PROGRESS.value]))
        .where(tasks.c.version.is_not(None))
    )
    old = update(versions).where(
        versions.c.run == run, versions.c.version < newest, versions.c.data.is_not(None), versions.c.version.not_in(busy)
    )
    return int(tx.execute(old.values(data=None)).rowcount)


# Residuals


_MINE: Final = (residuals.c.run == bindparam("r")) & (residuals.c.node == bindparam("n"))
_ACCOUNT: Final = Prepared(select(residuals.c.account).where(_MINE))
_KEEP: Final = Prepared(update(residuals).where(_MINE).values(account=bindparam("a"), at=bindparam("now")))


def account(tx: Tx, run: int, node: str) -> bytes | None:
    found = _ACCOUNT.value(tx, r=run, n=node)
    return bytes(found) if found else None


def keep_account(tx: Tx, run: int, node: str, sketch: bytes, now: float) -> None:
    if not _KEEP.change(tx, r=run, n=node, a=sketch, now=now):
        tx.execute(insert(residuals).values(run=run, node=node, account=sketch, at=now))


def hand_over_account(tx: Tx, run: int, of: str, to: str, now: float) -> None:
    """What `of` has kept back is `to`'s from now on."""
    if of == to:
        return
    found = account(tx, run, of) or b""
    tx.execute(delete(residuals).where(residuals.c.run == run, residuals.c.node == of))
    keep_account(tx, run, to, found, now)
