"""Rank correlation: does one list have the order of another? Kendall's tau-b (Biometrika 30, 1938; ties: 33, 1945). No torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """1: the same order, -1: the opposite one, about 0: none in common. None where all of one list are equal, or fewer than two."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values and {len(b)}, but as many are needed")
    score = pairs_a = pairs_b = 0  # the last two: pairs that are no ties
    for i in range(len(a)):
        for j in range(i):
            x, y = _sign(a[i] - a[j]), _sign(b[i] - b[j])
            score += x * y
            pairs_a += x != 0
            pairs_b += y != 0
    return score / math.sqrt(pairs_a * pairs_b) if pairs_a and pairs_b else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
