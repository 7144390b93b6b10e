"""File deleter: the bytes of answers that are used or refused, and of versions that nobody works from any more."""

from __future__ import annotations

from typing import Final

from laminar.grid.db import runs, tasks, uploads, versions
from laminar.grid.db.book import Tx

KEEP: Final = 4  # newest versions


def delete(tx: Tx, now: float, *, claim: bool = False) -> int:  # noqa: ARG001
    ids = [row.id for row in tasks.to_do(tx, tasks.DELETE, claim=claim)]
    uploads.drop(tx, ids)
    tasks.mark(tx, ids, todo=None)
    return len(ids)


def delete_versions(tx: Tx) -> int:
    return sum(versions.forget(tx, run.id, newest=run.version - KEEP + 1) for run in runs.all_of(tx))
