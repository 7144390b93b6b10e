"""A virtual clock, and things on it that are shared: cores of a node, a link, the one thread of a server. No torch here."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from laminar.plan.machine import Stragglers

What = Callable[[Any], None]
MANY = 24  # steps in a row, from which on their sum is drawn as one number


@final
class Clock:
    """Calls what is due, in order of time; of two at once the one that was said first. So a seed always gives the same."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, What, Any]] = []
        self._said = 0
        self.over = False

    def after(self, seconds: float, what: What, about: Any) -> None:
        self._said += 1
        heapq.heappush(self._due, (self.now + seconds, self._said, what, about))

    def run(self) -> None:
        """Until it is over, or nothing is left."""
        due, pop = self._due, heapq.heappop
        while due and not self.over:
            self.now, _, what, about = pop(due)
            what(about)


@final
class Shared:
    """Pieces of work that all go on at once, as processes on cores and messages on a link do; more than there is room for slow each other
    down alike.

    Kept by virtual time, as in fair queueing (Parekh and Gallager, IEEE/ACM ToN 1(3), 1993): a piece ends when the work that each of them
    has got since the beginning reaches its mark, so nothing is counted anew when one comes or goes.
    """

    def __init__(self, clock: Clock, room: int) -> None:
        self._clock, self._room = clock, room
        self._pieces: list[tuple[float, int, What, Any]] = []
        self._got = self._since = 0.0
        self._said = self._stamp = 0

    def add(self, seconds: float, what: What, about: Any) -> None:
        """`seconds`: that it takes alone."""
        pieces, before = self._pieces, len(self._pieces)
        self._advance(before)
        self._said += 1
        mark = self._got + seconds
        heapq.heappush(pieces, (mark, self._said, what, about))
        if pieces[0][1] == self._said or before >= self._room:  # else the next end is when it was
            self._await()

    def _advance(self, pieces: int) -> None:
        now = self._clock.now
        if pieces:
            self._got += (now - self._since) * (1.0 if pieces <= self._room else self._room / pieces)
        self._since = now

    def _await(self) -> None:
        self._stamp += 1
        pieces = len(self._pieces)
        left = max(0.0, self._pieces[0][0] - self._got)
        self._clock.after(left if pieces <= self._room else left * pieces / self._room, self._ended, self._stamp)

    def _ended(self, stamp: int) -> None:
        if stamp != self._stamp:
            return  # something came in between
        self._advance(len(self._pieces))
        mark, _, what, about = heapq.heappop(self._pieces)
        self._got = mark
        if self._pieces:
            self._await()
        what(about)


@final
class Thread:
    """One thing after the other, on shared cores. What is to be done `first` goes before all that waits."""

    def __init__(self, cores: Shared) -> None:
        self._cores = cores
        self._waiting: deque[tuple[float, What, Any]] = deque()
        self._busy = False

    def do(self, seconds: float, what: What, about: Any, *, first: bool = False) -> None:
        if first:
            self._waiting.appendleft((seconds, what, about))
        else:
            self._waiting.append((seconds, what, about))
        self._next()

    def _next(self) -> None:
        if not self._busy and self._waiting:
            self._busy = True
            seconds, what, about = self._waiting.popleft()
            self._cores.add(seconds, self._done, (what, about))

    def _done(self, one: tuple[What, Any]) -> None:
        one[0](one[1])  # may have more to do first
        self._busy = False
        self._next()


@final
class Draws:
    """How much longer than usual a worker's steps take. Each worker has its own numbers, the same in every simulation with this seed: so
    plans are compared under the same luck."""

    def __init__(self, stragglers: Stragglers, seed: int, workers: int) -> None:
        self._how = stragglers
        self._random = [random.Random(seed * 65_537 + worker) for worker in range(workers)]
        squares = 1.0 + stragglers.slow_share * (stragglers.slow_factor**2 - 1.0)
        self._mean = stragglers.mean
        self._variance = max(0.0, _square_of(stragglers.spread) * squares - self._mean**2)

    def steps(self, worker: int, count: int) -> float:
        """So many in a row, in usual ones."""
        how = self._how
        if not how.spread and not how.slow_share:
            return float(count)
        draw = self._random[worker]
        if count > MANY:
            return max(0.25 * count, count * self._mean + math.sqrt(count * self._variance) * draw.gauss(0.0, 1.0))
        total = 0.0
        for _ in range(count):
            one = draw.lognormvariate(0.0, how.spread) if how.spread else 1.0
            total += one * how.slow_factor if how.slow_share and draw.random() < how.slow_share else one
        return total


def _square_of(spread: float) -> float:
    """The mean square of a lognormal number whose median is 1."""
    return math.exp(2 * spread**2)


def middle(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
