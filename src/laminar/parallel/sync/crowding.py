"""Crowding: while other programs have the cores, fewer members that take the rows of several may be faster. Pure: paces in, groups out.

Members wait for each other at every step, so one that has lost its core makes all wait for milliseconds. A member that computes its own
rows and then another's waits for nobody: beside a foreign process on two cores, one member that takes all rows makes a step in less time
than two that take half of them each. Whether it does is not worked out but tried: when members wait a lot, larger groups are tried for a
moment and kept if steps became shorter; from time to time smaller ones are tried, since other programs end. Compare backup tasks (Dean
and Ghemawat, OSDI 2004), which also have the work of a slow machine done by another; here in the same order, with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

WAITING: Final = 0.2  # of its time that a member must wait before anything is tried: on free cores it is less than a tenth
GAIN: Final = 0.95  # of a step's time, at most, in which a step must be made for things to change
MOMENT: Final = 0.05  # seconds of a stretch, in which things stay as they are
TRIAL: Final = 3  # stretches. The first does not count: it takes memory, and whoever has rested is given a core before others
FIRST: Final = 8  # steps of a stretch while nobody knows how long one takes
MOST: Final = 64  # steps of a stretch
SOON: Final = 0.25  # seconds between a change and the next trial; after a trial that changed nothing twice as many,
LATER: Final = 2.0  # up to these while members stand in for others, which are slower than they could be if the cores are free again,
SELDOM: Final = 30.0  # and up to these while all compute
COST: Final = 20  # times as many seconds as a trial has lost are between it and the next, at least, if that is not more than SELDOM
SLOW: Final = 0.25  # seconds of a step, above which nobody more stands in: a core is lost for milliseconds, and who rests waits for a step


@dataclass(frozen=True)
class Stretch:
    """How the next steps are made: the rows of `group` members by the first of them."""

    group: int
    steps: int


@final
class Crowding:
    def __init__(self, size: int) -> None:
        self._size = size
        self._group = 1
        self._pace: float | None = None  # seconds of a step, as things are
        self._trial: int | None = None  # a group that is tried
        self._tried: list[float] = []  # paces of the trial so far
        self._lost = 0.0  # seconds, by the trial so far
        self._smaller = False  # a larger group was tried last
        self._steps = FIRST  # of the stretch under way
        self._patience = SOON
        self._due = 0.0

    def next(self, now: float, pace: float | None, waited: float, *, allowed: bool) -> Stretch:
        """After a stretch in which a step took `pace` seconds (None: not known) and some member waited for so much of its time."""
        if not allowed:
            self._group, self._trial, self._pace = 1, None, pace or self._pace
        elif pace is not None:
            self._hear(now, pace, waited)
        group = self._trial or self._group
        known = pace or self._pace
        self._steps = FIRST if known is None else max(1, min(MOST, round(MOMENT / known)))
        return Stretch(group, self._steps)

    def _hear(self, now: float, pace: float, waited: float) -> None:
        if self._trial is None:
            self._pace = pace if self._pace is None else (self._pace + pace) / 2
            if now >= self._due:
                self._trial, self._tried, self._lost = self._worth_trying(waited, self._pace), [], 0.0
            return
        assert self._pace is not None  # there was a stretch before the trial
        self._tried.append(pace)
        self._lost += self._steps * (pace - self._pace)
        found = sum(self._tried[1:]) / (TRIAL - 1)
        slower = found >= GAIN * self._pace  # also when it is not over yet
        if slower:
            self._patience = min(2 * self._patience, SELDOM if self._group == 1 else LATER)
            self._trial, self._due = None, now + max(self._patience, min(COST * self._lost, SELDOM))
        elif len(self._tried) == TRIAL:
            self._group, self._pace, self._patience = self._trial, found, SOON
            self._trial, self._due = None, now + self._patience

    def _worth_trying(self, waited: float, pace: float) -> int | None:
        """Larger groups while members wait, in turns with smaller ones: where groups have not as many members each, some always wait."""
        larger = waited >= WAITING and self._group < self._size and pace <= SLOW
        if self._group == 1:
            return 2 if larger else None
        smaller = self._smaller or not larger
        self._smaller = not smaller
        return -(-self._group // 2) if smaller else min(2 * self._group, self._size)
