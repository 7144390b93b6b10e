"""Places in a file: reading and writing at one, whatever others do with the same open file.

POSIX has calls for it. Windows has none: there it is moved to and used under a lock, which is for threads of this process, as one open
file is. `BINARY`: without it Windows turns line ends into others.
"""

from __future__ import annotations

import os
import threading
from typing import Final

BINARY: Final[int] = getattr(os, "O_BINARY", 0)
NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)  # not for a writer, should it be a pipe
Bytes = bytes | bytearray | memoryview
_ALONE: Final = threading.Lock()


def _moved_and_read(file: int, size: int, at: int) -> bytes:
    with _ALONE:
        os.lseek(file, at, os.SEEK_SET)
        return os.read(file, size)


def _moved_and_written(file: int, data: Bytes, at: int) -> int:
    with _ALONE:
        os.lseek(file, at, os.SEEK_SET)
        return os.write(file, data)


def read_into(file: int, room: memoryview, at: int) -> int:
    """How many bytes from there are in `room` now; 0 at the end."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [room], at)
    found = read_at(file, len(room), at)
    room[: len(found)] = found
    return len(found)


read_at = os.pread if hasattr(os, "pread") else _moved_and_read
"""(file, size, at) -> at most so many bytes from there; none at the end."""
write_at = os.pwrite if hasattr(os, "pwrite") else _moved_and_written
"""(file, data, at) -> how many bytes were written there: maybe not all."""
