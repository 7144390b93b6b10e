"""File deleter: the bytes of answers that are used or refused, of versions that nobody works from, of files that no run needs, and of
residuals that nobody will go on with."""

from __future__ import annotations

from typing import Final

import msgspec

from laminar.grid.db import custody, runs, tasks, uploads, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.grid.wire.messages import About

KEEP: Final = 4  # newest versions
UNUSED: Final = 86400.0  # seconds that an uploaded file may wait for its run to begin
AFTER: Final = 7 * 86400.0  # seconds after its end that a run keeps its files: it may be begun again
AT_ONCE: Final = 100  # files
LIVE: Final = ("open", "paused")


def delete(tx: Tx, now: float, *, claim: bool = False) -> int:  # noqa: ARG001
    ids = [row.id for row in tasks.to_do(tx, tasks.DELETE, claim=claim)]
    uploads.drop(tx, ids)
    tasks.mark(tx, ids, todo=None)
    return len(ids)


def delete_versions(tx: Tx) -> int:
    return sum(versions.forget(tx, run.id, newest=run.version - KEEP + 1) for run in runs.all_of(tx))


def delete_files(tx: Tx, now: float) -> int:
    """Files of no run that lives or has lately ended, and that were not uploaded within the last day. How many."""
    old = versions.old_files(tx, now - UNUSED)
    if not old:
        return 0
    needed: set[str] = set()
    for run in runs.all_of(tx):
        if keeps_files(run, now):
            about = versions.get_file(tx, run.about)
            if about is None:
                continue
            needed.add(run.about)
            needed.update(msgspec.json.decode(about, type=About).files)
    unneeded = [sha256 for sha256 in old if sha256 not in needed][:AT_ONCE]
    return versions.drop_files(tx, unneeded, now - UNUSED) if unneeded else 0


def delete_custody(tx: Tx, now: float) -> int:
    """What was handed in for runs that ended long ago, and what never came whole."""
    return custody.drop_old(tx, [run.id for run in runs.all_of(tx) if not keeps_files(run, now)], now - UNUSED)


def keeps_files(run: Run, now: float) -> bool:
    return run.state in LIVE or run.ended is None or run.ended > now - AFTER
