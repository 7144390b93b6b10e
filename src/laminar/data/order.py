"""Orders: permutations and counted random numbers that are the same on every machine and with every numpy.

Only the raw 64-bit words of PCG64 are used, and plain integer arithmetic: numpy promises those, not its distributions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive

_GOLDEN = 0x9E3779B97F4A7C15


def permutation(count: int, seed: int, *labels: str | int) -> NDArray[np.intp]:
    """A random order of 0..count-1 for the stream called `labels`."""
    words = np.random.PCG64(derive(seed, *labels)).random_raw(count)
    return np.argsort(np.asarray(words, dtype=np.uint64), kind="stable")  # equal words are rarer than 1 in 2^64 pairs


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
