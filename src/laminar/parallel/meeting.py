"""Meetings: where the workers of one machine wait for each other, thousands of times a second.

Each worker has a counter in shared memory that only it writes: the number of meetings it has come to. A meeting is over for a worker
when all counters have reached its own. Waiting begins with looking again and again, since on a free core the others are microseconds
away; goes on with giving the core away between looks; and ends in sleep (parking.py): with more processes than cores, spinning would keep
the one that is waited for from running at all, and a core that sleeps takes over a process that waits for another core. Nobody waits
for ever: after `timeout` seconds the meeting is called off.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final, final

from laminar.parallel.parking import count_to, park
from laminar.parallel.waited import WAITED

LOOKS: Final = 400  # about 20 microseconds
YIELDING: Final = 100e-6  # seconds; longer would keep a core that the one waited for could be moved to

_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))

# words: [0] 0, or why everybody is to leave; for each rank, on a cache line of its own, a counter and whether somebody sleeps on it
STRIDE: Final = 8
FINE: Final = 0


class Broken(BaseException):
    """The team is not whole any more: someone died, or the chief called it off. Like Ctrl-C it is no error of the code that it comes in."""


def words_for(size: int) -> int:
    return STRIDE * (1 + size)


def precise_naps() -> None:
    """Linux makes every sleep of a process some 50 microseconds longer, to wake fewer times; here that is longer than the sleep."""
    if sys.platform == "linux":
        import ctypes

        PR_SET_TIMERSLACK = 29
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


@final
class Meeting:
    def __init__(self, words: memoryview[int], rank: int, size: int, *, timeout: float = math.inf, first: int = STRIDE) -> None:
        """`first`: the word at which counters begin, which meetings of other kinds have elsewhere."""
        self._words = words
        self.timeout = timeout
        self._first = first
        self._mine = first + STRIDE * rank
        self.rank, self.size = rank, size
        self.count = 0
        self.among(range(size), 0)

    def among(self, ranks: Iterable[int], count: int) -> None:
        """From now on only these meet. `count`: of meetings so far, the same for all of them, and at least as many as there were."""
        self._others = [self._first + STRIDE * other for other in ranks if other != self.rank]
        self.count = count

    def meet(self) -> None:
        """Wait until all have come. Broken when the team is called off meanwhile."""
        words = self._words
        self.count += 1
        count = self.count
        count_to(words, self._mine, count)
        for other in self._others:
            if words[other] >= count:
                continue
            for _ in range(LOOKS):
                if words[other] >= count:
                    break
            else:
                self._wait(other, count)
        if words[0] != FINE:
            raise Broken(words[0])

    def _wait(self, other: int, count: int) -> None:
        if not come(self._words, other, count, timeout=self.timeout):
            self.call_off()

    def call_off(self, why: int = 1) -> None:
        self._words[0] = why


def come(words: memoryview[int], place: int, count: int, *, timeout: float) -> bool:
    """Wait until a word has reached a count, or all are called off. False: it was not heard of for too long."""
    began = time.monotonic()
    try:
        return _come(words, place, count, began, timeout)
    finally:
        WAITED.seconds += time.monotonic() - began


def _come(words: memoryview[int], place: int, count: int, began: float, timeout: float) -> bool:
    now = time.monotonic
    while now() - began < YIELDING:
        for _ in range(16):
            if words[place] >= count or words[0] != FINE:
                return True
            _yield()
    latest = now() + timeout
    while (seen := words[place]) < count and words[0] == FINE:
        park(words, place, seen)
        if now() > latest:
            return False
    return True
