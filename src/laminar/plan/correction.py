"""Correction: what earlier predictions of one kind teach the next one. No torch here.

What a prediction leaves out is in part a share of everything (processes that disturb each other) and in part the same for every step
(Python's own time, waking up): `measured = times x predicted + plus`. Where workers meet only now and then, it is the same for every
meeting: seconds are those of a beat then, which is all that lies between two meetings. Both are fitted where jobs of unlike size were
measured, by least squares of the relative error; elsewhere it is the median of the ratios, and `plus` is 0. A job far from all that were
measured is never corrected by more, or by less, than any of these was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

FEWEST: Final = 2  # pairs that a correction is made of, at least
FEWEST_OF_BOTH: Final = 3
UNLIKE: Final = 2.0  # the longest prediction must be so many times the shortest
NARROW, WIDE = 0.3, 3.0  # beyond these it is no correction but a mistake somewhere


@dataclass(frozen=True)
class Correction:
    """`least` and `most`: of what is measured over what was predicted."""

    times: float = 1.0
    plus: float = 0.0  # seconds of a beat
    least: float = 0.0
    most: float = math.inf

    def __call__(self, predicted: float, beat: float = 1.0) -> float:
        """Of a batch; `beat`: the batches that are behind the team from one meeting to the next."""
        return min(self.most * predicted, max(self.least * predicted, self.times * predicted + self.plus / beat))


NONE: Final = Correction()


def correction(pairs: Sequence[tuple[float, float]]) -> Correction | None:
    """Of predicted and measured seconds of beats; None: there are too few of them."""
    if len(pairs) < FEWEST:
        return None
    ratio = min(WIDE, max(NARROW, median(measured / predicted for predicted, measured in pairs)))
    shortest, longest = min(p for p, _ in pairs), max(p for p, _ in pairs)
    if len(pairs) < FEWEST_OF_BOTH or longest < UNLIKE * shortest:
        return Correction(ratio)
    # a x + c = y, each row divided by y: (x / y) a + (1 / y) c = 1
    xx = sum((x / y) ** 2 for x, y in pairs)
    xy = sum(x / y**2 for x, y in pairs)
    yy = sum(1 / y**2 for _, y in pairs)
    x, y = sum(x / y for x, y in pairs), sum(1 / y for _, y in pairs)
    whole = xx * yy - xy * xy
    if whole <= 0:
        return Correction(ratio)
    times, plus = (yy * x - xy * y) / whole, (xx * y - xy * x) / whole
    ratios = [measured / predicted for predicted, measured in pairs]
    return Correction(times, plus, min(ratios), max(ratios)) if plus >= 0 and NARROW <= times <= WIDE else Correction(ratio)
