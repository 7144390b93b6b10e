"""A unit that is being filled: in memory where it is small, in a file of its own where a large file has no digests of chunks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path
from typing import Protocol, final

from laminar.core.places import BINARY
from laminar.data.mirrors.cache import FileCache, write_all, writing
from laminar.data.mirrors.parts import Part
from laminar.data.mirrors.wanted import CHUNK, Wanted


class Filling(Protocol):
    def add(self, data: bytes | memoryview) -> None: ...

    def digest(self) -> str: ...

    def keep(self) -> None:
        """Put it where it belongs; it was proved."""
        ...

    def drop(self) -> None: ...


def filling(wanted: Wanted, unit: int, cache: FileCache, part: Part | None) -> Filling:
    if wanted.length(unit) > CHUNK:
        return OnDisk(wanted, cache)
    return InMemory(wanted, unit, cache, part)


@final
class InMemory:
    def __init__(self, wanted: Wanted, unit: int, cache: FileCache, part: Part | None) -> None:
        self._wanted, self._unit, self._cache, self._part = wanted, unit, cache, part
        self._data = bytearray()

    def add(self, data: bytes | memoryview) -> None:
        self._data += data

    def digest(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def keep(self) -> None:
        if self._part is None:
            self._cache.keep(self._wanted.sha256, self._data)
        else:
            self._part.keep(self._unit, self._data)

    def drop(self) -> None:
        self._data = bytearray()


@final
class OnDisk:
    """The whole file; it begins anew in the next process."""

    def __init__(self, wanted: Wanted, cache: FileCache) -> None:
        self._wanted, self._cache = wanted, cache
        self._path: Path = cache.temporary(wanted.sha256)
        self._hash = hashlib.sha256()
        self._mutex = threading.Lock()  # two connections may find it whole
        with writing(self._path):
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)

    def add(self, data: bytes | memoryview) -> None:
        self._hash.update(data)
        with writing(self._path):
            write_all(self._fd, data, None)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def keep(self) -> None:
        with self._mutex:
            if self._fd == -1:
                return
            with writing(self._path):
                os.fsync(self._fd)
            self._cache.adopt(self._wanted.sha256, self._path)
            self.drop()

    def drop(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1
        with contextlib.suppress(OSError):
            self._path.unlink()
