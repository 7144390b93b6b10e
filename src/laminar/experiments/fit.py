"""Fits: laws that measured points are held against. Pure.

Critical batch: `steps(B) = S_min (1 + B_crit / B)` (McCandlish, Kaplan, Amodei, "An Empirical Model of Large-Batch Training",
arXiv 1812.06162: (S/S_min - 1)(E/E_min - 1) = 1 with E = S B and B_crit = E_min/S_min):
far below B_crit twice the batch halves the steps, far above it saves nothing.
Strong scaling: the same work on more workers; weak: as much more work as workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec


class CriticalBatch(msgspec.Struct, frozen=True, kw_only=True):
    """`error`: root mean square of ln(measured / fitted). `found`: B_crit lies where batches were measured, give or take a factor 4."""

    s_min: float  # steps with an unlimited batch
    b_crit: float
    error: float
    points: int
    found: bool

    def steps(self, batch: float) -> float:
        return self.s_min * (1 + self.b_crit / batch)


def critical_batch(points: Sequence[tuple[float, float]]) -> CriticalBatch | None:
    """Of (batch, steps to the target). None for fewer than three batches.

    Least squares of relative errors: steps are spread by a share of themselves, and an absolute fit would see the smallest batches only.
    For a given B_crit the best S_min follows in closed form, so one number is searched for, by the golden section over ln B_crit.
    """
    points = [(b, s) for b, s in points if b > 0 and s > 0]
    batches = {b for b, _ in points}
    if len(batches) < 3:
        return None

    def s_min(b_crit: float) -> float:
        return math.exp(sum(math.log(s) - math.log1p(b_crit / b) for b, s in points) / len(points))

    def error(log_b: float) -> float:
        b_crit = math.exp(log_b)
        best = math.log(s_min(b_crit))
        return sum((math.log(s) - best - math.log1p(b_crit / b)) ** 2 for b, s in points)

    low, high = math.log(min(batches) / 1e3), math.log(max(batches) * 1e3)
    grid = [low + (high - low) * i / 200 for i in range(201)]
    at = min(range(len(grid)), key=lambda i: error(grid[i]))
    best = _golden(error, grid[max(0, at - 1)], grid[min(len(grid) - 1, at + 1)])
    b_crit = math.exp(best)
    return CriticalBatch(
        s_min=s_min(b_crit),
        b_crit=b_crit,
        error=math.sqrt(error(best) / len(points)),
        points=len(points),
        found=min(batches) / 4 <= b_crit <= max(batches) * 4,
    )


def _golden(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9) -> float:
    """The least of a function that has one valley between low and high."""
    share = (math.sqrt(5) - 1) / 2
    a, b = high - share * (high - low), low + share * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > tolerance:
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - share * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + share * (high - low)
            at_b = function(b)
    return (low + high) / 2


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    workers: int
    seconds: float
    speed_up: float  # strong: times faster; weak: times as much work in the same time
    efficiency: float  # 1 is ideal


def strong_scaling(seconds: Mapping[int, float]) -> list[Scaling]:
    """By workers. The fewest workers are the base: `E(n) = T(b) b / (T(n) n)`."""
    if not seconds:
        return []
    base = min(seconds)
    found = []
    for workers, time in sorted(seconds.items()):
        speed_up = seconds[base] / time
        found.append(Scaling(workers=workers, seconds=time, speed_up=speed_up, efficiency=speed_up * base / workers))
    return found


def weak_scaling(seconds: Mapping[int, float]) -> list[Scaling]:
    """By workers, each having as much work as one: `E(n) = T(b) / T(n)`."""
    if not seconds:
        return []
    base = min(seconds)
    return [
        Scaling(workers=n, seconds=time, speed_up=seconds[base] / time * n / base, efficiency=seconds[base] / time)
        for n, time in sorted(seconds.items())
    ]


def amdahl(seconds: Mapping[int, float]) -> float | None:
    """The share of the work that does not run in parallel (Amdahl 1967), by least squares of `T(n)/T(1) = s + (1 - s)/n`."""
    if 1 not in seconds or len(seconds) < 2:
        return None
    pairs = [(1 - 1 / n, time / seconds[1] - 1 / n) for n, time in seconds.items() if n > 1]
    share = sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs)
    return min(1.0, max(0.0, share))
