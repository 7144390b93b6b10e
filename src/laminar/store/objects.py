"""Objects: files named by the sha256 of their content.

A name that is there is not proof: what is loaded was hashed when it was written or fetched, and its stat signature has not changed since
(index.py); else it is hashed again first, and L303 is raised if it is not what its name says.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Final, NamedTuple, final

from laminar.core import atomic, digest
from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.core.permission import refusal
from laminar.core.places import BINARY
from laminar.store.index import Index, Signature, signature
from laminar.store.layout import Layout, proved

GRACE: Final = 3600.0
"""Seconds for which gc leaves a new object alone: longer than from writing tensors to committing their layer."""

PIECE: Final = 4 << 20
"""So many bytes are written before the system is asked to begin putting them on disk: the disk works while the rest is written."""

Guard = Callable[[], AbstractContextManager[None]]
Each = Callable[[Callable[[Path], None], Iterable[Path]], Iterable[None]]


class Staged(NamedTuple):
    """A temporary file that is to become the object `name`; `synced`: its bytes are on disk already."""

    temp: Path
    name: str
    synced: bool = False


@final
class Objects:
    def __init__(self, layout: Layout, guard: Guard, clock: Clock = SYSTEM) -> None:
        self._layout = layout
        self._root = f"{layout.objects}{os.sep}"  # by hand: a Path each time costs more than the system call
        self._guard = guard  # the lock that gc holds while it deletes
        self._clock = clock
        self._mutex = threading.Lock()  # threads of one put wait here, quickly, and not for each other's file lock
        self.index = Index(layout.index, layout.tmp)

    def path(self, digest: str) -> Path:
        return self._layout.object(digest)

    def size(self, digest: str) -> int:
        return self._seen(digest)[0]

    def has(self, digest: str) -> bool:
        """It is there and is what its name says. Costs a stat, and a rehash only when the file changed since it was proved."""
        try:
            self.prove(digest)
        except LaminarError as error:
            if error.code in ("L303", "L304"):
                return False
            raise
        return True

    def prove(self, name: str) -> Signature:
        """L304 when the object is missing, L303 when the file is not what its name says."""
        seen = self._seen(name)
        if not self.index.trusts(name, seen):
            path = self.path(name)
            try:
                found = digest.of_file(path)
            except FileNotFoundError:  # gc was here since we looked
                raise self._missing(name) from None
            except PermissionError as error:
                raise refusal(error, path) from error
            if found != name:
                raise LaminarError(
                    "L303", f"object {path} is corrupt: its sha256 is {digest.short(found)}…", hint="laminar verify --repair"
                )
            if self._seen(name) == seen:  # it stood still while we read it
                self.index.add([(name, seen)])
        return seen

    def read(self, digest: str) -> bytes:
        self.prove(digest)
        try:
            return atomic.read_bytes(self.path(digest))
        except FileNotFoundError:
            raise self._missing(digest) from None

    def open(self, name: str) -> memoryview:
        """The object's bytes as copy-on-write memory: free to change, the file never does."""
        from laminar.store import mapping  # numpy: not needed to look at refs

        try:
            fd = os.open(self._place(name), os.O_RDONLY | BINARY)
        except FileNotFoundError:
            raise self._missing(name) from None
        except PermissionError as error:
            raise refusal(error, self.path(name)) from error
        try:
            seen = signature(os.fstat(fd))
            if not self.index.trusts(name, seen):
                self.prove(name)
            return mapping.private(fd, seen[0])
        finally:
            os.close(fd)

    def put(self, data: bytes | bytearray | memoryview) -> str:
        """Keep these bytes; their digest. Nothing is written when they are there already."""
        name = digest.of_bytes(data)
        if not self.keep(name):
            with self.staging(name) as (file, place):
                file.write(data)
                place(name)
            atomic.fsync_folder(self.path(name).parent)
        return name

    def keep(self, name: str) -> bool:
        """True if the object is there and right; it is then safe from gc for the next half of the grace age.

        A wrong file is removed. Both are done under gc's lock, so that gc cannot delete what was just found.
        """
        try:
            seen = self.prove(name)
        except LaminarError as error:
            if error.code == "L304":
                return False
            if error.code != "L303":
                raise
            with self._mutex, self._guard(), contextlib.suppress(FileNotFoundError):
                self.path(name).unlink()
            return False
        if self._clock.now() - seen[1] / 1e9 < GRACE / 2:
            return True
        with self._mutex, self._guard():
            try:
                os.utime(self.path(name))
                self.index.add([(name, self._seen(name))])
            except (FileNotFoundError, LaminarError):
                return False
            except PermissionError:  # someone else's file in a shared store: its owner's gc sees our lease and ref
                return self.path(name).exists()
        return True

    @contextlib.contextmanager
    def staging(self, label: str) -> Iterator[tuple[IO[bytes], Callable[[str], None]]]:
        """A temporary file, and a function that makes it the object of a given digest (synced, read-only, renamed, indexed).

        The file vanishes when `place` was not called. The folder is left for the caller to sync: many objects share the cost.
        """
        temp = self.temporary(label)
        with atomic.explaining_os_errors(temp):
            temp.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temp, "wb", buffering=0) as file:

                    def place(name: str) -> None:
                        os.chmod(file.fileno() if os.chmod in os.supports_fd else temp, 0o444)
                        os.fsync(file.fileno())
                        self._rename(temp, name)
                        self.index.add([(name, signature(os.fstat(file.fileno())))])

                    yield file, place
            finally:
                with contextlib.suppress(OSError):
                    temp.unlink()

    def temporary(self, label: str) -> Path:
        """A new name in tmp: it tells gc which process it belongs to."""
        return self._layout.tmp / f".{label[:16]}.{os.getpid()}.{os.urandom(6).hex()}.tmp"

    def write_aside(self, temp: Path, *parts: bytes | memoryview, sync: bool = False) -> None:
        """Write a new temporary file while the system puts it on disk; `sync` waits until it is. `settle` makes it an object."""
        with atomic.explaining_os_errors(temp):
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o444)
            try:
                write_all(fd, *parts)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)

    def settle(self, staged: Sequence[Staged], each: Each = map) -> None:
        """Make temporary files objects: sync all, rename all, sync their folders. `each` may work in parallel.

        In three sweeps instead of file by file: the first sync of a sweep makes the file system commit for all the others.
        """
        with atomic.explaining_os_errors(self._layout.objects):
            list(each(sync_file, [one.temp for one in staged if not one.synced]))
            for one in staged:
                self._rename(one.temp, one.name)
            self.index.add([(one.name, self._seen(one.name)) for one in staged])
            self.sync_folders([one.name for one in staged], each)

    def sync_folders(self, names: Iterable[str], each: Each = map) -> None:
        """Make the placing of these objects survive a power cut."""
        list(each(atomic.fsync_folder, [self._layout.objects / start for start in sorted({name[:2] for name in names})]))

    def names(self) -> Iterable[str]:
        """Every object on disk, by the name of its file."""
        for folder in sorted(self._layout.objects.iterdir()) if self._layout.objects.is_dir() else ():
            if folder.is_dir():
                for path in sorted(folder.iterdir()):
                    yield folder.name + path.name

    def _rename(self, temp: Path, name: str) -> None:
        target = self._place(name)
        try:
            os.replace(temp, target)
        except FileNotFoundError:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            atomic.fsync_folder(self._layout.objects)
            os.replace(temp, target)

    def _seen(self, digest: str) -> Signature:
        try:
            return signature(os.stat(self._place(digest)))
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing(digest) from None

    def _place(self, name: str) -> str:
        """As `path`: of a digest and of nothing else."""
        proved(name)
        return f"{self._root}{name[:2]}/{name[2:]}"

    def _missing(self, digest: str) -> LaminarError:
        return LaminarError("L304", f"object {digest} is missing from {self._root}", hint="laminar verify --repair, or laminar build")


def write_all(fd: int, *parts: bytes | memoryview) -> None:
    """Everything, however little the system takes at a time, in pieces whose ends are those of disk blocks: a short first write would
    spoil the long one."""
    rest = [memoryview(part) for part in parts if len(part)]
    while rest:
        done = os.writev(fd, _first(rest, PIECE))
        start_writeback(fd)
        while rest and done >= rest[0].nbytes:
            done -= rest.pop(0).nbytes
        if rest:
            rest[0] = rest[0][done:]


def _first(parts: list[memoryview], size: int) -> list[memoryview]:
    """The first `size` bytes of all parts together."""
    taken = []
    for part in parts:
        if size <= 0:
            break
        taken.append(part[:size])
        size -= part.nbytes
    return taken


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | BINARY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _writeback() -> Callable[[int], object]:
    """Linux can be told to start writing without anybody waiting for it; elsewhere the later sync does it all."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            call = ctypes.CDLL(None).sync_file_range
            call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
            return lambda fd: call(fd, 0, 0, 2)  # SYNC_FILE_RANGE_WRITE
    return lambda fd: fd


start_writeback: Final = _writeback()


def hash_all(*parts: bytes | memoryview) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()
