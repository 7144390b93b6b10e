"""Sketch: some numbers by which two changes of a model can be compared, however many values they have and however they are compressed.

A count sketch (Charikar, Chen, Farach-Colton, ICALP 2002): every value is added to one of so many sums with one of two signs, both by a
random table. It is linear, and inner products of sketches are those of the changes, give or take |x||y|/sqrt(sums). So

* two honest nodes that did one task have all but the same sketch: SIZE sums are enough to see that;
* the sketch of what a node keeps back (its residual) is known from the sketches of what it did and the packets that it sent, and an
  honest packet leaves nothing of itself there (trust/accounts.py). That is a question of noise, so larger models have more sums.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.data.order import counted

SIZE: Final = 256  # sums by which two answers are compared
LARGEST_SIZE: Final = 4096
SHARE: Final = 256  # values for each sum: a sketch is 1/256 of a dense answer, or 1 KiB
SPARSE: Final = ("topk", "dgc")  # of which only nodes know the work: their answers need a sketch
_PART: Final = 1 << 20
_AT_ONCE: Final = 1 << 15  # values: what is made of them on the way stays in the cache of a processor

Sketch = NDArray[np.float32]


def sums_of(numel: int) -> int:
    """Sums of a sketch that an answer carries: a power of two."""
    return min(LARGEST_SIZE, max(SIZE, 1 << (max(1, numel // SHARE).bit_length() - 1)))


def folded(sketch: Sketch) -> Sketch:
    """The sketch of SIZE sums by the same table."""
    small: Sketch = sketch.reshape(-1, SIZE).sum(axis=0, dtype=np.float64).astype(np.float32)
    return small


@final
class Sketcher:
    """A table: made from a seed, the same on every machine. `sums`: as many as an answer to a run of this size carries."""

    def __init__(self, numel: int, seed: int, sums: int | None = None) -> None:
        self.numel, self.sums = numel, sums_of(numel) if sums is None else sums
        self._sums = np.empty(numel, dtype=np.int16)
        self._signs = np.empty(numel, dtype=np.float32)
        start = derive(seed, "sketch") & ((1 << 63) - 1)
        for at in range(0, numel, _PART):
            words = counted(start, np.arange(at, min(at + _PART, numel)), 1)[:, 0]
            self._sums[at : at + _PART] = (words % np.uint64(self.sums)).astype(np.int16)
            self._signs[at : at + _PART] = np.where(words >> np.uint64(63), np.float32(1), np.float32(-1))

    def of(self, values: NDArray[np.float32]) -> Sketch:
        """Of a whole change, flat."""
        total = np.zeros(self.sums)
        for at in range(0, self.numel, _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            total += np.bincount(self._sums[some], weights=values[some] * self._signs[some], minlength=self.sums)
        return total.astype(np.float32)

    def of_some(self, positions: NDArray[np.integer], values: NDArray[np.float32]) -> Sketch:
        """Of a change that is zero but at `positions`."""
        return np.bincount(self._sums[positions], weights=values * self._signs[positions], minlength=self.sums).astype(np.float32)


def distance(one: Sketch, other: Sketch) -> float:
    """Between two changes, as a share of the larger one. 0: the same; 1 or more: nothing in common."""
    size = max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
    if size == 0:
        return 0.0
    found = float(np.linalg.norm(one.astype(np.float64) - other)) / size
    return found if math.isfinite(found) else math.inf
