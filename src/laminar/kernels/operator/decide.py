"""Which way of running a kernel is the fastest, by measured times alone: times in, decisions out.

    decider = Decider(("lanes", "scalar", "circuit"))
    way = decider.way                    # to run the next call by
    decider.took(way, seconds)

Of calls that look alike the first two run the plain way. If they are short, that is all. Else each other way has a call in which it
compiles what it needs, and then two that count; those of a way that is clearly slower end after one. From then on calls run by the way
that took least, and when two of them in a row take four times longer or shorter than was measured, everything is measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

Way: TypeAlias = Literal["scalar", "lanes", "circuit"]

LONG: Final = 2e-3
"""Seconds of a call from which on other ways are tried."""
FAR: Final = 4.0
"""A call this many times longer or shorter is another one."""
TRIES: Final = 2
SLOWER: Final = 1.2
"""A way whose first call takes so many times the least has no second one."""


@final
class Decider:
    """For calls that look alike."""

    def __init__(self, ways: Sequence[Way], long: float = LONG) -> None:
        """`ways`: the plain one first."""
        self._ways, self._long = tuple(ways), long
        self._begin()

    def _begin(self) -> None:
        self.way: Way = self._ways[0]
        self.decided = False
        self._times: dict[Way, list[float]] = {one: [] for one in self._ways}
        self._compiled = {self._ways[0]}
        self._measured = 0.0
        self._away = 0

    @property
    def times(self) -> Mapping[Way, float]:
        """The least seconds of each way that was measured."""
        return {way: min(some) for way, some in self._times.items() if some}

    @property
    def long(self) -> bool:
        """Did every call so far take long?"""
        return min(self.times.values(), default=0.0) >= self._long

    def took(self, way: Way, seconds: float) -> None:
        """A call ran this way."""
        if self.decided:
            self._look(way, seconds)
        elif way not in self._compiled:
            self._compiled.add(way)
        else:
            self._times[way].append(seconds)
            self._go_on()

    def _go_on(self) -> None:
        plain = self._times[self._ways[0]]
        if len(plain) == TRIES and min(plain) < self._long:
            self._decide()
            return
        for way in self._ways:
            if not self._done(way):
                self.way = way
                return
        self._decide()

    def _done(self, way: Way) -> bool:
        times = self._times[way]
        others = [min(some) for other, some in self._times.items() if some and other != way]
        return len(times) >= TRIES or bool(times and others and min(times) > SLOWER * min(others))

    def _decide(self) -> None:
        times = self.times
        self.way = min(times, key=lambda way: times[way])
        self.decided, self._measured, self._away = True, times[self.way], 0

    def _look(self, way: Way, seconds: float) -> None:
        """Is it still what was measured? One call may have waited for a core."""
        if way != self.way:
            return
        longest = max(self._measured * FAR, self._long if self._measured < self._long else 0.0)
        short = seconds < self._measured / FAR and self._measured >= self._long
        self._away = self._away + 1 if seconds > longest or short else 0
        if self._away == 2:
            self._begin()


def alike(count: int, whole_numbers: Sequence[int], threads: int) -> tuple[int, ...]:
    """Equal for calls that look alike: as many instances, threads, and whole numbers of one magnitude, which double twice within it."""
    return (count, threads, *((one.bit_length() + 1) // 2 * (1 if one >= 0 else -1) for one in whole_numbers))
