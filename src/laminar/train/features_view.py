"""Views: kept rows in the order of a data set, without copying them.

Rows that lie in the order of the data are a slice of the memory map. Others (the data grew, was shuffled, or has equal samples) are
reached through a list of row numbers, by an object that does what batches and evaluation ask of an array.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def view(rows: Array, at: NDArray[np.int64]) -> Array:
    """`rows[at]`, made when asked for."""
    if not len(at):
        return rows[:0]
    first = int(at[0])
    if np.array_equal(at, np.arange(first, first + len(at))):
        return rows[first : first + len(at)]
    return GatheredRows(rows, at)  # type: ignore[return-value]  # an array to all who take, slice and measure it


@final
class GatheredRows:
    """Reads like the array `rows[at]`: len, shape, dtype, slices, index arrays, and numpy.take into a buffer."""

    def __init__(self, rows: Array, at: NDArray[np.int64]) -> None:
        self._rows, self._at = rows, at
        self.dtype = rows.dtype
        self.shape = (len(at), *rows.shape[1:])
        self.ndim = rows.ndim
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * rows.dtype.itemsize

    def __len__(self) -> int:
        return len(self._at)

    def __getitem__(self, index: Any) -> Array:
        found: Array = self._rows[self._at[index]]
        return found

    def take(self, indices: Any, axis: int | None = 0, out: Array | None = None, mode: Any = "raise") -> Array:
        if axis != 0:
            raise ValueError(f"rows are taken along axis 0, not {axis}")
        found: Array = np.take(self._rows, self._at[indices], axis=0, out=out, mode=mode)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("rows that lie elsewhere cannot be an array without a copy")
        return np.asarray(self._rows[self._at], dtype=dtype)
