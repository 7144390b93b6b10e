"""Room for samples: arrays in memory up to a budget, beyond it in files that are mapped and forgotten with the process.

A mapped array reads and writes like any other. Its pages count as memory of the process while they are mapped, though the file holds
them too; so it lets go of them after every KEPT bytes that were handed out, and the peak does not grow with the data. What cannot
be seen from inside the array (np.take of numpy, a loop over a view) says `release`, or uses `gather`.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from laminar.core.errors import LaminarError
from laminar.core.memory import total
from laminar.core.sizes import parse_bytes
from laminar.data.mapped import KEPT, map_array, pages_of, spacious_folder

Array = NDArray[Any]

SETTING = "LAMINAR_DATA_MEMORY"
CHUNK = 4 << 20  # bytes that loops over rows take at once
UNTOLD = 4 << 30  # bytes of memory, where the system does not tell


@final
class Room:
    """Gives arrays, in memory while all that live have room in `budget` bytes together (None: always), else in `folder`."""

    def __init__(self, budget: int | None = None, folder: Path | None = None) -> None:
        self.budget, self.folder = budget, folder
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of the arrays in memory that are still alive."""
        return self._used

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        with self._lock:
            fits = not size or self.budget is None or self._used + size <= self.budget
            if fits:
                self._used += size
        if not fits:
            return map_array(shape, kind, self.folder or spacious_folder())
        try:
            array = np.empty(shape, dtype=kind)
        except BaseException:
            self._give_back(size)
            raise
        weakref.finalize(array, self._give_back, size).atexit = False
        return array

    def take(self, x: Array, index: NDArray[np.intp]) -> Array:
        """x[index] along the first axis."""
        if len(index) and not (index.min() >= 0 and index.max() < len(x)):
            raise IndexError(f"rows {index.min()} to {index.max()} of {len(x)}")
        out = self.empty((len(index), *x.shape[1:]), x.dtype)
        for part in row_slices(out):
            if is_mapped(out):
                some = np.empty((part.stop - part.start, *x.shape[1:]), dtype=x.dtype)
                gather(x, index[part], some)
                out[part] = some
            else:
                gather(x, index[part], out[part])
        return out

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._used -= size


def release(array: Any) -> None:
    """Let go of the memory that a mapped array, or any view of one, holds; nothing is lost. Other arrays are left alone."""
    pages = pages_of(array)
    if pages is not None:
        pages.drop()


def is_mapped(array: Any) -> bool:
    return pages_of(array) is not None


def will_need(array: Array, first: int, last: int) -> None:
    """Rows first..last-1 of a mapped array will be read soon: the system may fetch them from the disk meanwhile."""
    pages = pages_of(array)
    if pages is not None and array.flags.c_contiguous:
        pages.will_need(array.view(np.ndarray)[first:last])


def gather(x: Array, index: NDArray[np.intp], out: Array) -> None:
    """out[:] = x[index] along the first axis, for an index that is known to be in range. A mapped `x` wants many rows at a time."""
    pages = pages_of(x)
    if pages is None:
        np.take(x, index, axis=0, out=out, mode="clip")  # "clip" takes without a copy
        return
    # In the order in which they lie: what has been mapped for one row serves its neighbours, and is let go of after every KEPT bytes.
    plain, row = x.view(np.ndarray), max(1, x.nbytes // max(1, len(x)))
    order = np.argsort(index, kind="stable")
    lying = index[order]
    cuts = (np.flatnonzero(np.diff(lying * row // KEPT)) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(lying)], strict=True):
        out[order[start:end]] = np.take(plain, lying[start:end], axis=0, mode="clip")
        pages.drop()


def row_slices(x: Array, size: int = CHUNK) -> Iterator[slice]:
    """The rows of `x` in slices of about `size` bytes."""
    rows = max(1, size // max(1, x.nbytes // max(1, len(x))))
    for start in range(0, len(x), rows):
        yield slice(start, min(start + rows, len(x)))


def budget_of(setting: str | int | None) -> int:
    """Bytes: "512MB", "1.5GiB", a number; None: what $LAMINAR_DATA_MEMORY says, else half of the memory there is."""
    where, given = ("memory", setting) if setting is not None else (SETTING, os.environ.get(SETTING) or None)
    if given is None:
        return (total() or UNTOLD) // 2
    found = given if isinstance(given, int) else parse_bytes(given)
    if found is None or found < 1:
        raise LaminarError(
            "L109",
            f"{where}: {given!r} is no size; expected one such as 512MB, 2GiB or a number of bytes",
            hint='memory = "2GB"' if setting is not None else f"export {SETTING}=2GB, or unset it",
        )
    return found
