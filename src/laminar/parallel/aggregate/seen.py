"""Seen: which sequence numbers of a worker were there before, in bounded memory."""

from __future__ import annotations

from typing import Final

import msgspec

WINDOW: Final = 1024
"""How many numbers beyond a gap are remembered. Numbers further behind than that count as seen: such a gradient would be of no use."""


class Seen(msgspec.Struct):
    """Every number up to `floor`, and those of `above`."""

    floor: int = -1
    above: dict[int, None] = {}  # a set that keeps its order, so that a saved state is the same text each time

    def add(self, number: int) -> bool:
        """False if it was there before."""
        if number <= self.floor or number in self.above:
            return False
        self.above[number] = None
        if len(self.above) > WINDOW:
            self.floor = min(self.above)
            del self.above[self.floor]
        while self.floor + 1 in self.above:
            self.floor += 1
            del self.above[self.floor]
        return True

    @property
    def next(self) -> int:
        """A number that was never there, nor any after it."""
        return max(self.above, default=self.floor) + 1
