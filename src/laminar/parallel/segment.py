"""Segments: memory that several processes of one machine have in common. It has no name, so nothing is left of it when they are gone.

Made by one process and handed to its children as an open file: a memfd where the system has it, an unlinked temporary file elsewhere.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from laminar.core.errors import LaminarError
from laminar.core.memory import available

if TYPE_CHECKING:
    from torch import Tensor

LINE = 64  # bytes of a cache line: words of different writers lie on different ones


@final
class Segment:
    def __init__(self, fd: int, size: int) -> None:
        """Attach to the segment behind an open file."""
        self.fd, self.size = fd, size
        self.map = mmap.mmap(fd, size)

    @classmethod
    def of_process(cls, pid: int, fd: int, size: int) -> Segment:
        """One that another process of this machine has open by that number. OSError if it has not."""
        own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
        try:
            return cls(own, size)
        except (OSError, ValueError):
            os.close(own)
            raise

    @classmethod
    def told(cls, told: Mapping[str, Any]) -> Segment:
        """In a member of a team: the file that it has inherited, or that the chief has open."""
        number, size = told["segment"], told["bytes"]
        return cls(number, size) if told["of"] is None else cls.of_process(told["of"], number, size)

    @classmethod
    def create(cls, size: int) -> Segment:
        """L607 where there is no room: it is taken now, not when a page is first written, which would kill the writer."""
        size = max(size, mmap.PAGESIZE)
        there = available()
        if there is not None and size > there:  # the system would take pages for it until it had to kill somebody
            raise _too_little(size, f"{there:,} are free")
        fd = _anonymous_file()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
            else:
                os.ftruncate(fd, size)
            return cls(fd, size)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise _too_little(size, str(error.strerror)) from error
            raise

    def floats(self, offset: int, count: int) -> Tensor:
        """`count` float32 numbers from byte `offset` on, as a tensor on the shared memory."""
        import torch  # not above: the wire has segments, too, and does without it

        return torch.frombuffer(self.map, dtype=torch.float32, count=count, offset=offset) if count else torch.empty(0)

    def rows(self, offset: int, rows: int, count: int) -> Tensor:
        """So many rows of `count` float64 numbers below each other, each beginning on a cache line."""
        import torch

        each = -(-8 * count // LINE) * LINE // 8
        found = torch.frombuffer(self.map, dtype=torch.float64, count=rows * each, offset=offset) if count else torch.empty(0).double()
        return found.view(rows, each)[:, :count]

    def words(self, offset: int, count: int) -> memoryview[int]:
        """64-bit integers: read and written whole, by index."""
        return memoryview(self.map)[offset : offset + 8 * count].cast("q")

    def doubles(self, offset: int, count: int) -> memoryview[float]:
        return memoryview(self.map)[offset : offset + 8 * count].cast("d")

    def bytes(self, offset: int, count: int) -> memoryview[int]:
        return memoryview(self.map)[offset : offset + count]

    def close(self) -> None:
        """The file; the memory itself goes when no tensor uses it any more."""
        os.close(self.fd)


def _too_little(size: int, why: str) -> LaminarError:
    return LaminarError(
        "L607",
        f"the workers need {size:,} bytes of shared memory, and there are fewer: {why}",
        hint="use fewer workers, a smaller model, or give the machine (or container) more memory",
    )


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("laminar-workers")
    with tempfile.TemporaryFile(prefix="laminar-workers-") as file:
        return os.dup(file.fileno())
