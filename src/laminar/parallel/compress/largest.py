"""The largest values of each tensor, found without sorting them.

A threshold is taken from a sample, and one pass finds all that reach it (Lin et al., ICLR 2018, section 5). When these are more than
1.3 times what was wanted, the largest of them are taken: they hold the largest of all. When they are less than 0.8 times, the
threshold is lowered and the pass repeated. A sample that is the whole tensor is exact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laminar.parallel.compress.layout import Layout

Values = NDArray[np.float32]
Positions = NDArray[np.int64]

TOO_MANY: Final = 1.3
TOO_FEW: Final = 0.8
_LOWER: Final = 0.8  # what the threshold is multiplied by
_TRIES: Final = 8  # then it is 0: every value that is not
_ENOUGH: Final = 24  # wanted values in the sample: the count is then off by about a fifth, and one tensor in four takes a second look
_CHUNK: Final = 1 << 16


def largest(values: Values, layout: Layout, ratio: float, sample: float, turn: int) -> Positions:
    """Positions of about `ratio` of each part's values, at least one of each, those of the largest magnitude; ascending, never of a 0.

    `turn` moves the sample, so that no position is never looked at.
    """
    found = [np.empty(0, dtype=np.int64)]
    for part in layout.parts:
        if part.numel:
            at = _largest_of(values[part.offset : part.end], max(1, round(ratio * part.numel)), sample, turn)
            found.append(at + part.offset)
    return np.concatenate(found)


def most_of(layout: Layout, ratio: float) -> int:
    """How many `largest` finds at most."""
    return sum(min(part.numel, int(TOO_MANY * max(1, round(ratio * part.numel)))) for part in layout.parts if part.numel)


def _largest_of(values: Values, wanted: int, sample: float, turn: int) -> Positions:
    if wanted >= len(values):
        return np.flatnonzero(values)
    threshold = _threshold(values, wanted, sample, turn)
    found = _reaching(values, threshold)
    for tried in range(_TRIES):
        if len(found) >= TOO_FEW * wanted or threshold == 0:
            break
        threshold = threshold * _LOWER if tried + 1 < _TRIES else 0.0
        found = _reaching(values, threshold)
    if len(found) > TOO_MANY * wanted:
        best = np.argpartition(np.abs(values[found]), len(found) - wanted)[len(found) - wanted :]
        best.sort()
        found = found[best]
    return found


def _threshold(values: Values, wanted: int, sample: float, turn: int) -> float:
    stride = _stride(len(values), wanted, sample)
    taken = np.abs(values[(turn * 40503) % stride :: stride])
    rank = max(1, round(wanted * len(taken) / len(values)))
    return float(np.partition(taken, len(taken) - rank)[len(taken) - rank])


@lru_cache(maxsize=4096)
def _stride(numel: int, wanted: int, sample: float) -> int:
    """Every so manieth value is looked at: the share `sample`, and enough for the threshold to mean something.

    It has no divisor in common with the size of the tensor, so that it does not fall upon the same few columns or kernel positions.
    """
    least = max(sample * numel, _ENOUGH * numel / wanted)
    stride = max(1, int(numel // least))
    while math.gcd(stride, numel) != 1:
        stride -= 1
    return stride


def _reaching(values: Values, threshold: float) -> Positions:
    """Where magnitudes are at least the threshold and not 0. In chunks that stay in the cache, magnitudes, mask and all."""
    size = min(_CHUNK, len(values))
    magnitudes, mask = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.bool_)
    least = np.float32(threshold) if threshold > 0 else np.nextafter(np.float32(0), np.float32(1))
    found = []
    for at in range(0, len(values), _CHUNK):
        part = np.abs(values[at : at + _CHUNK], out=magnitudes[: len(values) - at])
        hits = np.flatnonzero(np.greater_equal(part, least, out=mask[: len(part)]))
        if len(hits):
            found.append(hits + at)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
