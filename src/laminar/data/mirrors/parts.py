"""Half a file: the units of it that were proved, in a sparse file, with a record of which they are. It outlives the process.

Only proved units are ever written, so it does not matter who writes them, or how often: several processes fill the same part without
a lock and see what the others have. What a record says is believed after hashing it once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from typing import final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.places import BINARY, read_at, write_at
from laminar.data.mirrors.cache import FileCache, write_all, writing
from laminar.data.mirrors.wanted import Wanted


@final
class Part:
    """A file of several units."""

    def __init__(self, wanted: Wanted, cache: FileCache) -> None:
        self._wanted = wanted
        self._cache = cache
        # The digests of the chunks are part of the name: those of a wrong index must not get into the part of a right one.
        name = f"{wanted.sha256}-{digest.of_json(wanted.chunks)[:16]}"
        self._path = cache.parts / f"{name}.part"
        self._record = cache.parts / f"{name}.have"
        self._files: tuple[int, int] | None = None
        self._ended = False
        self._mutex = threading.Lock()  # threads of one process: descriptors are opened once, and not closed under a write

    def had(self) -> set[int]:
        """The units that are there, by their content."""
        if not (self._path.is_file() and self._record.is_file()):
            return set()
        said = [unit for unit, flag in enumerate(self._record.read_bytes()[: self._wanted.units]) if flag == 1]
        had: set[int] = set()
        data, record = self._open()
        for unit in said:
            found = read_at(data, self._wanted.length(unit), self._wanted.start(unit))
            if hashlib.sha256(found).hexdigest() == self._wanted.digest(unit):
                had.add(unit)
            else:
                write_at(record, b"\0", unit)
        return had

    def has(self, unit: int) -> bool:
        """Whether somebody has fetched it meanwhile."""
        with self._mutex:
            if self._ended:
                return True
            if self._files is None and not self._record.is_file():
                return False
            return read_at(self._open()[1], 1, unit) == b"\1"

    def keep(self, unit: int, data: bytes | bytearray) -> None:
        with writing(self._path), self._mutex:
            if self._ended:
                return
            part, record = self._open()
            write_all(part, data, self._wanted.start(unit))
            write_at(record, b"\1", unit)

    def finish(self) -> bool:
        """Make it a file of the cache; False if the whole is not what it should be though every unit was, and then nothing is left."""
        sha256 = self._wanted.sha256
        if self._cache.path(sha256) is None:
            with writing(self._path):
                part, _ = self._open()
                good = _digest(part) == sha256
                if good:
                    os.fsync(part)
                    with contextlib.suppress(FileNotFoundError):  # adopted by another process meanwhile
                        os.utime(self._path)
            self.close()  # what is open cannot be renamed everywhere
            try:
                if good:
                    self._cache.adopt(sha256, self._path)
            except LaminarError:
                if self._cache.path(sha256) is None:
                    raise
            # Another process may have been quicker, and have taken the part away while we looked.
            if self._cache.path(sha256) is None:
                self._remove()
                return False
        self._remove()
        return True

    def close(self) -> None:
        with self._mutex:
            self._ended = True
            files, self._files = self._files, None
            for fd in files or ():
                os.close(fd)

    def _open(self) -> tuple[int, int]:
        if self._files is None:
            with writing(self._path):
                self._cache.parts.mkdir(parents=True, exist_ok=True)
                part = os.open(self._path, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
                try:
                    os.ftruncate(part, self._wanted.size)
                    record = os.open(self._record, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
                except BaseException:
                    os.close(part)
                    raise
            self._files = (part, record)
        return self._files

    def _remove(self) -> None:
        self.close()
        for path in (self._path, self._record):
            with contextlib.suppress(OSError):
                path.unlink()


def _digest(fd: int) -> str:
    found, at = hashlib.sha256(), 0
    while block := read_at(fd, 1 << 20, at):
        found.update(block)
        at += len(block)
    return found.hexdigest()
