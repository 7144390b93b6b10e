"""Locks and leases: both are the operating system's file locks, so the death of a process frees them.

A lock keeps two processes from doing the same thing. A lease tells gc what a living process needs: layers, runs and features.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.store import records
from laminar.store.layout import Layout, quoted

if TYPE_CHECKING:
    from filelock import BaseFileLock


def _file_lock(path: Path) -> BaseFileLock:
    from filelock import FileLock  # 60 ms to import: only who locks pays

    return FileLock(path, thread_local=False)


def may_write(layout: Layout) -> bool:
    """May this process write the store at all? Everything that is written goes through tmp or under a lock."""
    return not layout.root.exists() or os.access(layout.tmp if layout.tmp.exists() else layout.root, os.W_OK | os.X_OK)


@contextlib.contextmanager
def holding(path: Path, *, timeout: float | None = None, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file; `on_wait` is called once when someone else has it. L307 when `timeout` seconds were not enough."""
    from filelock import Timeout

    with atomic.explaining_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _file_lock(path)
        start = time.monotonic()
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if on_wait is not None:
                on_wait()
            try:
                lock.acquire(timeout=-1 if timeout is None else timeout, poll_interval=0.02)
            except Timeout:
                raise LaminarError(
                    "L307",
                    f"another process holds {path.name} since more than {time.monotonic() - start:.0f} s",
                    hint="wait for the other build or gc to end, then run the same command again",
                ) from None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise LaminarError(
                "L302", f"the lock file {path} is a link, which nobody of us makes", hint=f"look at it, then rm {path}"
            ) from None
    try:
        yield
    finally:
        lock.release()


def is_free(path: Path) -> bool:
    """Nobody holds it now, as far as can be told: one that may not be looked at is taken for held."""
    from filelock import Timeout

    lock = _file_lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return _free_for_readers(path)
    lock.release()
    return True


def _free_for_readers(path: Path) -> bool:
    """Of a file that may be read only. Whoever holds it holds it alone, so a lock that readers share tells as much."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return False
    try:
        with open(path, "rb") as file:  # closing it gives the lock back
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_free(path: Path) -> None:
    """Remove a lock file that nobody holds. It is held while it is removed, and who waits for it notices that it is gone."""
    from filelock import Timeout

    lock = _file_lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return
    try:
        path.unlink(missing_ok=True)
    finally:
        lock.release()


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a lease keeps."""

    layers: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


@final
class Lease:
    """Keeps layers, runs and features from gc until it is closed or its process dies.

    Take the lease first and look afterwards whether the layer is there: gc may have been quicker.
    A store that this process may not write can be used without: then no gc of this user can delete in it either, but one of its owner can.
    """

    def __init__(self, layout: Layout, guard: Callable[[], AbstractContextManager[None]], needs: Needs) -> None:
        name = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._layout = layout
        self._guard = guard
        self._record = layout.leases / f"{name}.json"
        self._path = layout.leases / f"{name}.lock"
        self._needs = Needs()
        self._mutex = threading.Lock()
        self._lock: BaseFileLock | None = None
        if not may_write(layout):
            self._needs = needs
            return
        with atomic.explaining_os_errors(self._path):
            layout.leases.mkdir(parents=True, exist_ok=True)
            self._lock = _file_lock(self._path)
            self._lock.acquire(blocking=False)
        try:
            self._write(needs)
        except BaseException:
            self.close()
            raise

    def add(self, *, layers: Iterable[str] = (), runs: Iterable[str] = (), features: Iterable[str] = ()) -> None:
        """Need more."""
        with self._mutex:
            old = self._needs
            new = Needs(
                layers=tuple(dict.fromkeys((*old.layers, *layers))),
                runs=tuple(dict.fromkeys((*old.runs, *runs))),
                features=tuple(dict.fromkeys((*old.features, *features))),
            )
            if new != old:
                self._write(new)

    def close(self) -> None:
        if self._lock is None:
            return
        self._record.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)
        self._lock.release()

    def _write(self, needs: Needs) -> None:
        if self._lock is not None:
            with self._guard():  # a gc that is deleting has read the leases before: wait for it
                records.write(self._record, msgspec.to_builtins(needs), tmp=self._layout.tmp)
        self._needs = needs

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def living(layout: Layout, *, remove_dead: bool) -> Needs:
    """Everything that living processes need. Leases of dead ones do not count, and are removed if asked (under gc's lock)."""
    layers: set[str] = set()
    runs: set[str] = set()
    features: set[str] = set()
    for path in sorted(layout.leases.glob("*.json")):
        lock = path.with_suffix(".lock")
        if not lock.exists() or is_free(lock):
            if remove_dead:
                path.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
            continue
        content = records.read(path)
        if content is not None:
            needs = msgspec.convert(content, Needs)
            layers.update(needs.layers)
            runs.update(needs.runs)
            features.update(needs.features)
    for lock in sorted(layout.leases.glob("*.lock")) if remove_dead else ():
        if not lock.with_suffix(".json").exists() and is_free(lock):
            lock.unlink(missing_ok=True)
    return Needs(layers=tuple(sorted(layers)), runs=tuple(sorted(runs)), features=tuple(sorted(features)))


def anyone_living(layout: Layout) -> bool:
    """Does some process hold a lease?"""
    return any(lock.exists() and not is_free(lock) for lock in (path.with_suffix(".lock") for path in layout.leases.glob("*.json")))


def lock_path(layout: Layout, name: str) -> Path:
    return layout.locks / f"{quoted(name)}.lock"
