"""Intervals that assume nothing about how figures are spread, and are exact for few of them. Pure.

Of a median: by the sign test (order statistics). Of the ratio or difference of two groups: by the rank-sum test (Hodges and Lehmann,
"Estimates of location based on rank tests", 1963): from all pairs, as many of the smallest and largest are left out as the test allows.
With few trials the wanted level cannot be reached; then the interval is the widest there is, and says which level it has.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

import msgspec

LEVEL: Final = 0.95
ENOUGH: Final = 0.9  # an interval of a lower level decides nothing


class Interval(msgspec.Struct, frozen=True):
    low: float
    high: float
    level: float  # that it really has: the chance that such an interval holds the true value


def of_median(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    ordered = sorted(values)
    cut = 0  # so many are left out on each side
    while cut + 1 <= (n - 1) // 2 and _median_level(n, cut + 1) >= level:
        cut += 1
    return Interval(ordered[cut], ordered[n - 1 - cut], _median_level(n, cut))


def _median_level(n: int, cut: int) -> float:
    """1 - 2 P(at most `cut` of n fair coins show heads)."""
    return 1 - 2 * sum(math.comb(n, k) for k in range(cut + 1)) / float(2**n)


def of_pairs(pairs: Sequence[float], n: int, m: int, level: float = LEVEL) -> Interval | None:
    """Of the n·m ratios or differences between two groups. None where either has fewer than two members."""
    if min(n, m) < 2:
        return None
    ordered = sorted(pairs)
    cut, reached = 0, _rank_sum_level(n, m, 0)
    while cut + 1 <= (n * m - 1) // 2:
        next_level = _rank_sum_level(n, m, cut + 1)
        if next_level < level:
            break
        cut, reached = cut + 1, next_level
    return Interval(ordered[cut], ordered[n * m - 1 - cut], reached)


def _rank_sum_level(n: int, m: int, cut: int) -> float:
    """1 - 2 P(U <= cut), U of Mann and Whitney. Exact for small groups, by the normal law for others."""
    if n * m > 2500:
        sigma = math.sqrt(n * m * (n + m + 1) / 12)
        return 1 - 2 * statistics.NormalDist().cdf((cut + 0.5 - n * m / 2) / sigma)
    counts = _rank_sum_counts(n, m)
    return 1 - 2 * sum(counts[: cut + 1]) / math.comb(n + m, n)


@cache
def _rank_sum_counts(n: int, m: int) -> tuple[int, ...]:
    """How many ways to mix the groups give U = 0, 1, … n·m: the Gaussian binomial coefficient, as a product of polynomials."""
    poly = [1] + [0] * (n * m)
    for k in range(1, n + 1):
        for at in range(n * m, m + k - 1, -1):  # times (1 - q^(m+k))
            poly[at] -= poly[at - m - k]
        for at in range(k, n * m + 1):  # over (1 - q^k)
            poly[at] += poly[at - k]
    return tuple(poly)


def ratio(values: Sequence[float], benchmark: Sequence[float], level: float = LEVEL) -> tuple[float, Interval | None] | None:
    """Ratio of the medians, with its interval. None where some value is not above 0: ratios would say nothing."""
    if not values or not benchmark or min(*values, *benchmark) <= 0:
        return None
    point = statistics.median(values) / statistics.median(benchmark)
    return point, _around(point, of_pairs([x / y for x in values for y in benchmark], len(values), len(benchmark), level))


def difference(values: Sequence[float], benchmark: Sequence[float], level: float = LEVEL) -> tuple[float, Interval | None] | None:
    if not values or not benchmark:
        return None
    point = statistics.median(values) - statistics.median(benchmark)
    return point, _around(point, of_pairs([x - y for x in values for y in benchmark], len(values), len(benchmark), level))


def _around(point: float, interval: Interval | None) -> Interval | None:
    """The medians' ratio is what tables show; the interval of all pairs may, rarely, lie beside it, and is then widened."""
    if interval is None:
        return None
    return Interval(min(interval.low, point), max(interval.high, point), interval.level)


def compare(values: Sequence[float], others: Sequence[float]) -> Literal["more", "less", "inside the noise", "too few repeats"]:
    """Are these more or less than the others? Only where the interval of the difference leaves out 0, at a level that is high enough."""
    apart = difference(values, others)
    if apart is None or apart[1] is None or apart[1].level < ENOUGH - 1e-9:
        return "too few repeats"
    interval = apart[1]
    return "more" if interval.low > 0 else "less" if interval.high < 0 else "inside the noise"
