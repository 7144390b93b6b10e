"""Orders: permutations, subsets and counted random numbers that are the same on every machine and with every numpy.

Only the raw 64-bit words of PCG64 are used, and plain integer arithmetic: numpy promises those, not its distributions.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive

WHOLE = 1 << 30  # stored bytes: up to this, any sample may come after any other
BLOCK_BYTES = 256 << 10
WINDOW_BLOCKS = 512  # 128 MiB of samples are mixed with each other

_GOLDEN = 0x9E3779B97F4A7C15


def permutation(count: int, seed: int, *labels: str | int) -> NDArray[np.intp]:
    """A random order of 0..count-1 for the stream called `labels`: the places of as many random words, sorted."""
    return sorted_places(np.asarray(np.random.PCG64(derive(seed, *labels)).random_raw(count), dtype=np.uint64))


def sorted_places(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """What a stable argsort gives.

    Places are written over the lowest bits and sorted with the words: for a million of them a fourth of the time.
    """
    low = np.uint64((1 << len(words).bit_length()) - 1)
    keyed = (words & ~low) | np.arange(len(words), dtype=np.uint64)
    keyed.sort()
    lost = bool(((keyed[1:] ^ keyed[:-1]) <= low).any())  # two words that differed only there
    keyed &= low
    order = keyed.view(np.intp)
    return order[np.argsort(words[order], kind="stable")] if lost else order  # a stable sort of what is all but sorted is fast


def subset(count: int, size: int, seed: int, *labels: str | int) -> NDArray[np.int64]:
    """`size` distinct numbers of 0..count-1 in random order, every choice and order as likely as any other.

    Memory and time go by `size`, not by `count`: numbers are drawn, and those seen before are passed over.
    """
    if not 0 <= size <= count:
        raise ValueError(f"{size} distinct numbers out of {count}")
    if 2 * size >= count:
        return permutation(count, seed, *labels)[:size].astype(np.int64)
    stream = np.random.PCG64(derive(seed, *labels))
    last = np.uint64((1 << 64) // count * count - 1)  # beyond it words would make small numbers likelier
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        words = np.asarray(stream.random_raw(size - len(drawn) + 16), dtype=np.uint64)  # how many at a time changes nothing
        drawn = np.concatenate([drawn, (words[words <= last] % np.uint64(count)).astype(np.int64)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:size]


@final
class Shuffled:
    """The order of the samples in an epoch: a function of seed, epoch, and how many samples of how many stored bytes there are.

    Data larger than WHOLE may lie on a disk, where a random order would cost a read for every sample. There blocks of neighbours
    are put in a random order, and the samples of WINDOW_BLOCKS of them at a time are mixed. That is so for every such data set,
    also where it has room in memory: results must not depend on how much memory a machine has.
    """

    def __init__(self, count: int, row_bytes: int, seed: int, epoch: int) -> None:
        self._seed, self._epoch, self._count = seed, epoch, count
        self._rows = max(1, BLOCK_BYTES // max(1, row_bytes))
        self._window: tuple[int, NDArray[np.intp]] | None = None
        self._told = -1
        whole = count * row_bytes <= WHOLE
        self._whole = permutation(count, seed, "shuffle", epoch) if whole else None
        self._blocks = permutation(0 if whole else -(-count // self._rows), seed, "shuffle blocks", epoch)
        sizes = np.minimum(self._rows, count - self._blocks * self._rows)
        ends = np.cumsum(sizes)[WINDOW_BLOCKS - 1 :: WINDOW_BLOCKS]
        self._ends = np.append(ends, count) if not len(ends) or ends[-1] < count else ends  # of the windows

    def part(self, first: int, last: int) -> NDArray[np.intp]:
        """Places in the data of the samples that come first..last-1."""
        if self._whole is not None:
            return self._whole[first:last]
        parts: list[NDArray[np.intp]] = []
        while first < last:
            number = self._number(first)
            start, end = self._start(number), min(last, int(self._ends[number]))
            parts.append(self._mixed(number)[first - start : end - start])
            first = end
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)

    def coming(self, last: int) -> list[tuple[int, int]]:
        """Ranges of neighbours that will be asked for after place `last - 1`, each said once."""
        if self._whole is not None or not last:
            return []
        number = min(self._number(last - 1) + 1, len(self._ends) - 1)
        fresh = range(max(self._told + 1, number - 1), number + 1)
        self._told = max(self._told, number)
        return [
            (int(block) * self._rows, min((int(block) + 1) * self._rows, self._count)) for window in fresh for block in self._of(window)
        ]

    def _number(self, place: int) -> int:
        return int(np.searchsorted(self._ends, place, side="right"))

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _of(self, number: int) -> NDArray[np.intp]:
        return self._blocks[number * WINDOW_BLOCKS : (number + 1) * WINDOW_BLOCKS]

    def _mixed(self, number: int) -> NDArray[np.intp]:
        if self._window is None or self._window[0] != number:
            rows = (self._of(number)[:, None] * self._rows + np.arange(self._rows)).reshape(-1)
            rows = rows[rows < self._count]  # the last block of the data is short
            self._window = number, rows[permutation(len(rows), self._seed, "shuffle window", self._epoch, number)]
        return self._window[1]


def counted(seed: int, index: NDArray[np.integer], draws: int) -> NDArray[np.uint64]:
    """`draws` random 64-bit words for every index, each a function of (seed, index, draw) alone: SplitMix64, read by counter.

    (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.)
    """
    with np.errstate(over="ignore"):
        start = _mix(np.asarray(index, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(seed))
        steps = np.arange(1, draws + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        return _mix(start[:, None] + steps[None, :])


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1) from 64-bit words."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
