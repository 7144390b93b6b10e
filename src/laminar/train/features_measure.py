"""Measure: how fast rows of a given length are written to and read from the disk of the store. No torch."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.core import atomic
from laminar.core.memory import available
from laminar.data.dataset import as_float

PROBE_BYTES: Final = 4 << 20


def read_and_write(folder: Path, row_bytes: int, *, rows: int, cold: bool) -> tuple[float, float]:
    """Seconds per row to (gather in random order from a memory map, write and sync), on a probe file that is gone afterwards.

    `cold` asks the system to forget the file first: for features that will not stay in memory, the disk is what is read.
    """
    width = max(1, row_bytes // 4)
    count = max(1, min(rows, PROBE_BYTES // (4 * width) or 1))
    path = folder / f".probe.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    with atomic.explaining_os_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            start = time.perf_counter()
            with open(path, "wb") as file:
                file.write(np.zeros(count * width, np.float32).data)
                file.flush()
                os.fsync(file.fileno())
                write = time.perf_counter() - start
                if cold and hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            read = gather_seconds(np.memmap(path, np.float32, "r", shape=(count, width)), repeat=1 if cold else 3)
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
    return read, write / count


def gather_seconds(rows: NDArray[Any], repeat: int = 3) -> float:
    """Seconds per row for what training does: take rows in random order, as float32. The best of `repeat` passes over a few MB."""
    count = max(1, min(len(rows), PROBE_BYTES // max(1, rows[:1].nbytes)))
    order = np.random.Generator(np.random.PCG64(0)).permutation(count)
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        as_float(rows[order])
        best = min(best, time.perf_counter() - start)
    return best / count


def fits_in_memory(size: int) -> bool:
    """Would `size` bytes of rows stay in the page cache? Half of what is available now is taken as an answer."""
    room = available()
    return size < 1 << 30 if room is None else size < room // 2
