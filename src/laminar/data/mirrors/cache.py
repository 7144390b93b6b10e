"""The cache of fetched files: ab/<sha256>, verified before they get there, kept under a budget of bytes, least recently used first out.

Nothing is synced file by file. What a power cut may have spoilt is found out by cache_leases.py, and hashed again before it is used.
Any number of processes may use one cache: a file appears under its name whole, and its content is its name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import final

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.core.places import write_at
from laminar.data.mirrors import cache_leases


@final
class FileCache:
    def __init__(self, folder: Path, budget: int) -> None:
        self.folder = folder
        self.budget = budget
        self._made: set[Path] = set()
        self._trusted = False
        self._name, self._count = f"{os.getpid()}-{uuid.uuid4().hex[:8]}", itertools.count()

    @property
    def parts(self) -> Path:
        """Where files are put together."""
        return self.folder / "parts"

    def place(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    def path(self, sha256: str) -> Path | None:
        """The file with this digest, if it is here. It counts as used now."""
        self._distrust()
        path = self.place(sha256)
        try:
            touch(path)
        except FileNotFoundError:
            return None
        except OSError:  # a cache of somebody else, that may only be read
            return path if path.is_file() else None
        return path

    def keep(self, sha256: str, data: bytes | bytearray) -> None:
        """Put a small file here, whose digest the caller has verified."""
        temp = self.temporary(sha256)
        with writing(temp):
            try:
                with open(temp, "wb", buffering=0) as file:
                    write_all(file.fileno(), data, None)
                self.adopt(sha256, temp)
            except BaseException:
                with contextlib.suppress(OSError):
                    temp.unlink()
                raise

    def adopt(self, sha256: str, temp: Path) -> None:
        """Make a verified file of `parts` one of the cache."""
        target = self.place(sha256)
        with writing(target):
            self._make(target.parent)
            os.replace(temp, target)

    def temporary(self, sha256: str) -> Path:
        """A name of its own in `parts`."""
        folder = self.parts
        if folder not in self._made:
            with writing(folder):
                self._make(folder)
        return folder / f"{sha256}.{self._name}.{next(self._count)}.tmp"

    def using(self) -> contextlib.AbstractContextManager[cache_leases.Lease]:
        """While this lasts, no process evicts what was used since it began."""
        self._distrust()
        return cache_leases.lease(self.folder)

    def evict(self, room: int = 0) -> int:
        """Make the cache `room` bytes smaller than its budget, least recently used first; how many bytes went. What this or any living
        fetch used stays, whatever the budget."""
        if not self.folder.is_dir():
            return 0
        with writing(self.folder), cache_leases.alone(self.folder):
            used = sorted(self._entries())
            total = sum(size for _, size, _ in used)
            since = cache_leases.in_use_since(self.folder)
            freed = 0
            for at, size, path in used:
                if total - freed + room <= self.budget or at >= since:
                    break
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                    path.with_suffix(".have").unlink(missing_ok=True)
                freed += size
        return freed

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """When used, bytes on the disk, path: of every file, and of what is half there."""
        for folder in self.folder.iterdir():
            if len(folder.name) != 2 and folder.name != "parts":
                continue
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        if entry.name.endswith(".have") or not entry.is_file(follow_symlinks=False):
                            continue
                        stat = entry.stat(follow_symlinks=False)
                        size = stat.st_size
                        if folder.name == "parts":  # those are sparse, where that can be seen
                            size = getattr(stat, "st_blocks", size // 512) * 512
                        yield stat.st_mtime_ns, size, Path(entry.path)

    def _distrust(self) -> None:
        """After a power cut: hash what had not been on the disk for long, and remove what is not what its name says."""
        if self._trusted:
            return
        self._trusted = True
        since = cache_leases.unsettled_since(self.folder)
        if since is None:
            return
        for at, _, path in list(self._entries()):
            if at >= since and path.parent.name != "parts" and digest.of_file(path) != path.name:
                path.unlink(missing_ok=True)
        cache_leases.settle(self.folder)

    def _make(self, folder: Path) -> None:
        if folder not in self._made:
            folder.mkdir(parents=True, exist_ok=True)
            self._made.add(folder)


def touch(path: Path) -> None:
    """Used now. The clock is asked here, since that of the file system is coarser than the one leases are compared with."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


def write_all(fd: int, data: bytes | bytearray | memoryview, offset: int | None) -> None:
    view = memoryview(data)
    while view.nbytes:
        count = os.write(fd, view) if offset is None else write_at(fd, view, offset)
        view = view[count:]
        offset = None if offset is None else offset + count


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """No space is L301, anything else that keeps us from writing to the cache L302."""
    try:
        with atomic.explaining_os_errors(path):
            yield
    except LaminarError as error:
        if error.code not in ("L301", "L302"):
            raise
        hint = "free space on that disk" if error.code == "L301" else "give yourself write permission there"
        raise LaminarError(error.code, error.message, hint=f"{hint}, or set LAMINAR_CACHE to another folder; then run it again") from error
    except OSError as error:
        raise LaminarError(
            "L302", f"{error.filename or path} cannot be written: {error.strerror}", hint="set LAMINAR_CACHE to a folder you own"
        ) from error
