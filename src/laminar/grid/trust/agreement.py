"""Agreement: do answers to one task agree? By their sketches (wire/sketch.py), within a tolerance: floats differ from machine to machine.

Buffers (batch statistics) are averages over what all nodes saw alike, so they differ less. They are compared by their magnitudes, small
and large ones alike, or those of a few channels would be lost among counters and variances.

needs = 1   one answer is enough
needs = 2   two that agree; if they do not, a third is asked for
needs = n   n // 2 + 1 that agree, as BOINC has it
An answer of a trusted node settles the matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from laminar.grid.wire.sketch import Sketch, distance

BUFFERS: Final = 0.02  # the largest difference between buffers, as a share of the larger ones
SMALL: Final = 1e-3  # a buffer below this counts by its value, one above by its magnitude


@dataclass(frozen=True)
class Given:
    """An answer: whose, and its sketch. `valid`: it was found good before."""

    result: int
    node: str
    sketch: Sketch
    trusted: bool = False
    valid: bool = False
    buffers: Sketch | None = None  # sketch of `magnitudes`

    def agrees(self, other: Given, tolerance: float) -> bool:
        if not (self.sketch.size and other.sketch.size):  # of a run whose answers are not compared
            return True
        if distance(self.sketch, other.sketch) > tolerance:
            return False
        return self.buffers is None or other.buffers is None or distance(self.buffers, other.buffers) <= BUFFERS


def magnitudes(buffers: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.arcsinh(buffers / SMALL).astype(np.float32)


@dataclass(frozen=True)
class Verdict:
    """`good` and `bad` are results. Both empty: not enough is known; then `needs` is how many answers there must be."""

    good: tuple[int, ...]
    bad: tuple[int, ...]
    needs: int
    how: Literal["alone", "agreed", "trusted", "waits"]


def judge(answers: Sequence[Given], needs: int, tolerance: float) -> Verdict:
    known = next((one for one in answers if one.trusted), None) or next((one for one in answers if one.valid), None)
    if known is not None:
        good = tuple(one.result for one in answers if one.agrees(known, tolerance))
        bad = tuple(one.result for one in answers if one.result not in good)
        alone = len(answers) == 1 and not known.trusted
        return Verdict(good, bad, needs, "alone" if alone else "trusted" if known.trusted else "agreed")
    if len(answers) < needs or not answers:
        return Verdict((), (), needs, "waits")
    if needs == 1 and len(answers) == 1:
        return Verdict((answers[0].result,), (), needs, "alone")
    group = _largest(answers, tolerance)
    if len(group) >= needs // 2 + 1 and len(group) > 1:
        return Verdict(group, tuple(one.result for one in answers if one.result not in group), needs, "agreed")
    return Verdict((), (), len(answers) + 1, "waits")


def _largest(answers: Sequence[Given], tolerance: float) -> tuple[int, ...]:
    """The largest set of answers near one of them; of several the one whose first answer came first."""
    best: tuple[int, ...] = ()
    for centre in answers:
        near = tuple(one.result for one in answers if one.agrees(centre, tolerance))
        if len(near) > len(best):
            best = near
    return best
