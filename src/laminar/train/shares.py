"""Shares: how much of a batch each worker takes, by the speed that it was measured at. Pure: rows and seconds in, rows out.

Weighted round robin (Katevenis et al., IEEE JSAC 9(8), 1991) with weights that are measured while it goes on: whoever needs half the time
for a row gets twice the rows, so that all come to the end of a step at once. Compare LB-BSP (Chen et al., arXiv 1806.02508) and dynamic
batching (Tyagi and Sharma, arXiv 2305.12213), which also change shares between steps only and damp what they measure.

A speed is rows over the seconds of a worker's own computation, waiting for others left out: a fast worker waits for a slow one, so with it
all would be measured as equally fast. It contains what a step costs at any number of rows; so shares settle where the times are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import msgspec

EVERY: Final = 16  # steps of a team between two looks at its speeds
WARM: Final = 2  # steps of a process that say nothing about its speed: memory is taken for the first time, code runs cold
WINDOW: Final = 0.25  # seconds of computation that a speed is measured over: less would be the noise of the machine
NEWEST: Final = 0.5  # what the newest window counts for in a speed
GAIN: Final = 0.05  # rows move only if the slowest worker gets faster by so much
FLOOR: Final = 1 / 16  # of an equal share, at least: what gets nothing is not measured, and stays out for ever


def apportion(total: int, weights: Sequence[float], least: int = 0) -> list[int]:
    """`total` in whole parts by weight, by largest remainders (Hamilton's method); at least `least` to each, if there is so much.

    The same on every machine. A larger weight never gets less; equal ones differ by one at most, the first getting more.
    """
    size = len(weights)
    if size * least > total:
        raise ValueError(f"{total} cannot be at least {least} for each of {size}")
    quotas: list[float] = [0.0] * size
    free, left = list(range(size)), total
    while True:
        heavy = sum(weights[i] for i in free)
        for i in free:
            quotas[i] = left * weights[i] / heavy
        poor = [i for i in free if quotas[i] < least]
        if not poor:
            break
        for i in poor:  # they get what is least, and the others share the rest
            quotas[i] = least
        free, left = [i for i in free if i not in poor], left - least * len(poor)
    found = [int(quota) for quota in quotas]
    for i in sorted(range(size), key=lambda i: (found[i] - quotas[i], i))[: total - sum(found)]:
        found[i] += 1
    return found


def least_of(rows: int, size: int) -> int:
    """Rows that each of so many gets of these: two, since batch statistics of one do not exist, unless equal parts were smaller."""
    return min(2, rows // size)


@final
class Speed(msgspec.Struct):
    """Of one worker, smoothed. JSON, since servers keep it."""

    value: float = 0.0  # rows a second; 0: not known yet
    rows: float = 0.0  # of the window under way
    seconds: float = 0.0

    def observe(self, rows: float, seconds: float) -> None:
        if rows <= 0 or seconds <= 0:
            return
        self.rows += rows
        self.seconds += seconds
        if self.seconds >= WINDOW:
            seen = self.rows / self.seconds
            self.value = self.value + NEWEST * (seen - self.value) if self.value else seen
            self.rows = self.seconds = 0.0


def rebalanced(now: Sequence[int], speeds: Sequence[float], least: int) -> list[int]:
    """As many rows as `now`, shared out by speed; or just as they are, if that would help too little. A speed of 0 is not known."""
    known = [speed for speed in speeds if speed > 0]
    if not known:
        return list(now)
    mean = sum(known) / len(known)
    taken = [speed if speed > 0 else mean for speed in speeds]
    lowest = sum(taken) / len(taken) * FLOOR
    wanted = apportion(sum(now), [max(speed, lowest) for speed in taken], least)

    def slowest(rows: Sequence[int]) -> float:
        return max(count / speed for count, speed in zip(rows, taken, strict=True))

    return wanted if slowest(now) > (1 + GAIN) * slowest(wanted) else list(now)


@final
class Shares:
    """Of the members of a team. Each has its own copy, and since all hear the same seconds after the same step, all copies are equal."""

    def __init__(self, rank: int, size: int, batch: int, rows: Sequence[int] = ()) -> None:
        """`rows`: of a whole batch, as they were when a run was saved. Those of another team are of no use."""
        fits = len(rows) == size and sum(rows) == batch
        self.rank, self.size, self.batch = rank, size, batch
        self.rows = list(rows) if fits else apportion(batch, [1] * size)
        self.speeds = [Speed() for _ in range(size)]

    def own(self, count: int) -> slice:
        """The rows that this member takes of a batch of so many."""
        parts = self.rows if count == self.batch else apportion(count, self.rows, least_of(count, self.size))
        start = sum(parts[: self.rank])
        return slice(start, start + parts[self.rank])

    def hear(self, samples: int, seconds: Sequence[float]) -> None:
        """Since the last time the team trained on so many samples, in shares as they are now, for which members took so many seconds."""
        for speed, rows, spent in zip(self.speeds, self.rows, seconds, strict=True):
            speed.observe(samples * rows / self.batch, spent)
        if all(speed.value for speed in self.speeds):
            self.rows = rebalanced(self.rows, [speed.value for speed in self.speeds], least_of(self.batch, self.size))

    @property
    def fractions(self) -> list[float]:
        return [round(rows / self.batch, 4) for rows in self.rows]
