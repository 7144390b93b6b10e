"""Correction: what earlier predictions of one kind teach the next one. No torch here.

What a prediction leaves out is in part a share of everything (processes that disturb each other) and in part the same for every step
(Python's own time, waking up): `measured = times x predicted + plus`. Where workers meet only now and then, it is the same for every
meeting: seconds are those of a beat then, which is all that lies between two meetings.

Few records, or such as contradict each other, teach little. So the ratio of measured to predicted is drawn towards 1, by as much as chance
could have made of it (`trust`: the positive part of James and Stein's factor, Berkeley Symposium 1961, with `USUAL` as what ratios of
unlike jobs differ by where nothing is known of it). A share and a time for every step together are two numbers, and are taken only where
jobs of unlike size were measured and each of these would have been predicted better so from the others. Where the others would not have
helped at all, nothing is corrected. A job far from all that were measured is never corrected by more, or by less, than any of these was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

FEWEST: Final = 2  # pairs that a correction is made of, at least
FEWEST_OF_BOTH: Final = 3
UNLIKE: Final = 2.0  # the longest prediction must be so many times the shortest
NARROW, WIDE = 0.3, 3.0  # beyond these it is no correction but a mistake somewhere
USUAL: Final = 0.1  # deviation of the logarithms of ratios, as it is before anything was measured …
WEIGHT: Final = 2  # … and the records that this counts as much as

Pair = tuple[float, float]  # seconds of a beat, predicted and measured


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


def correction(pairs: Sequence[Pair]) -> Correction | None:
    """Of predicted and measured seconds of beats; None: there are too few of them."""
    if len(pairs) < FEWEST:
        return None
    ways: list[Callable[[Sequence[Pair]], Correction]] = [lambda _: NONE, by_ratio]
    if by_both(pairs) is not None:
        ways.append(lambda some: by_both(some) or by_ratio(some))
    if len(pairs) < FEWEST_OF_BOTH:  # one alone says nothing of the other: what chance could have done is left out by `trust`
        return by_ratio(pairs)
    # the simplest of those that are as good
    return min(ways, key=lambda way: round(wrong_by(way, pairs), 6))(pairs)


def wrong_by(way: Callable[[Sequence[Pair]], Correction], pairs: Sequence[Pair]) -> float:
    """Each pair as the others would have it: the mean square of the logarithm of what is left."""
    return fmean(math.log(way([*pairs[:i], *pairs[i + 1 :]])(x) / y) ** 2 for i, (x, y) in enumerate(pairs))


def by_ratio(pairs: Sequence[Pair]) -> Correction:
    """The median of the ratios, drawn towards 1."""
    logs = [math.log(measured / predicted) for predicted, measured in pairs]
    middle = median(logs)
    return Correction(min(WIDE, max(NARROW, math.exp(trust(logs, middle) * middle))))


def trust(logs: Sequence[float], middle: float) -> float:
    """From 0 to 1: how much of `middle` is no chance, where `logs` lie around it as they do."""
    square = (sum((one - middle) ** 2 for one in logs) + WEIGHT * USUAL**2) / (len(logs) - 1 + WEIGHT)
    return max(0.0, 1.0 - square / (len(logs) * middle**2)) if middle else 0.0


def by_both(pairs: Sequence[Pair]) -> Correction | None:
    """A share and a time for every step, by least squares of the relative error; None: the pairs do not tell them apart."""
    if len(pairs) < FEWEST:
        return None
    shortest, longest = min(p for p, _ in pairs), max(p for p, _ in pairs)
    if longest < UNLIKE * shortest:
        return None
    # a x + c = y, each row divided by y: (x / y) a + (1 / y) c = 1
    xx = sum((x / y) ** 2 for x, y in pairs)
    xy = sum(x / y**2 for x, y in pairs)
    yy = sum(1 / y**2 for _, y in pairs)
    x, y = sum(x / y for x, y in pairs), sum(1 / y for _, y in pairs)
    whole = xx * yy - xy * xy
    if whole <= 0:
        return None
    times, plus = (yy * x - xy * y) / whole, (xx * y - xy * x) / whole
    ratios = [measured / predicted for predicted, measured in pairs]
    return Correction(times, plus, min(ratios), max(ratios)) if plus >= 0 and NARROW <= times <= WIDE else None
