"""Who uses the cache now, and what may not have reached the disk.

A lease is a locked file in locks/, named by when it began and under which boot of the machine. It tells others what not to evict. When it
ends a note stays for an hour: should the machine have been started anew since, what came after it began may be spoilt. Uses that follow
each other share a note, and the first one after that hour removes it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError
from laminar.store import locks

SETTLED: Final = 3600 * 10**9  # nanoseconds after which a running system has long written everything to the disk
WHY: Final = "Should this machine lose its power, the files that came lately are hashed again before they are used.\n"


@dataclass
class Lease:
    wrote: bool = False  # then a note is left


@contextlib.contextmanager
def lease(folder: Path) -> Iterator[Lease]:
    found, held = Lease(), contextlib.ExitStack()
    with held:
        try:
            with alone(folder):  # an eviction that runs has not seen us: wait for it
                path = folder / "locks" / f"{time.time_ns()}-{boot()}-{os.getpid()}-{uuid.uuid4().hex[:6]}.lease"
                held.enter_context(locks.holding(path))
        except (LaminarError, OSError):  # a cache that may only be read needs none; who writes will hear of it then
            yield found
            return
        yield found
    with contextlib.suppress(OSError):
        if found.wrote:
            _note(path)
        path.unlink(missing_ok=True)


def _note(lease: Path) -> None:
    """Leave word of a use that has ended: in the note of one that began not long before, else in one of its own."""
    for note in lease.parent.glob(f"*-{boot()}-*.note"):
        if 0 <= _began(lease) - _began(note) <= SETTLED:
            with contextlib.suppress(FileNotFoundError):  # just removed
                os.utime(note)
                return
    lease.with_suffix(".note").write_text(WHY)


def alone(folder: Path) -> contextlib.AbstractContextManager[None]:
    return locks.holding(folder / "locks" / "evict.lock")


def in_use_since(folder: Path) -> int:
    """When the oldest living lease began; for ever from now where there is none."""
    since = 1 << 63
    for path in (folder / "locks").glob("*.lease"):
        if locks.is_free(path):
            _note(path)
            path.unlink(missing_ok=True)
        else:
            since = min(since, _began(path))
    return since


def unsettled_since(folder: Path) -> int | None:
    """When the oldest use began that may not have reached the disk, because the machine was started anew."""
    now, spoilt = time.time_ns(), []
    with contextlib.suppress(OSError):
        for path in list((folder / "locks").iterdir()):
            if path.suffix not in (".note", ".lease"):
                continue
            if path.name.split("-")[1] != boot():
                spoilt.append(_began(path))
            elif path.suffix == ".note" and now - path.stat().st_mtime_ns > SETTLED:
                path.unlink(missing_ok=True)
    return min(spoilt, default=None)


def settle(folder: Path) -> None:
    """What an earlier boot left has been looked at."""
    for path in list((folder / "locks").iterdir()):
        if path.suffix in (".note", ".lease") and path.name.split("-")[1] != boot():
            path.unlink(missing_ok=True)


def _began(path: Path) -> int:
    first = path.name.split("-")[0]
    return int(first) if first.isdigit() else 0


@functools.cache
def boot() -> str:
    """Changes whenever the machine is started. Where that cannot be known, every process is a boot of its own."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:16]
    except OSError:
        return uuid.uuid4().hex[:16]
