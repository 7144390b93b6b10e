"""Utilization: where the time of nodes goes, on which synchronous and asynchronous training differ.

A node counts its time by what it is at: computing, transfer, waiting or paused. The sleep by which it keeps to its owner's share of the
processors counts as computing. It reports the seconds with its requests, each by the result on which they were spent (wire/messages.py).
The server adds them up, by node and by round; what was computed for an answer that was late, dropped or refused becomes `wasted`.

All of it is the word of nodes: for people to look at. Nothing is decided by it.
Pure: whoever has a clock says what time it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, final

import msgspec

from laminar.grid.wire.messages import Spent

SLACK: Final = 60.0  # seconds by which a node's clock may be ahead of the server's
SPENDING: Final = 32  # results that a report speaks of


class Part(StrEnum):
    COMPUTING = "computing"
    TRANSFER = "transfer"
    WAITING = "waiting"
    PAUSED = "paused"
    WASTED = "wasted"


PARTS: Final = tuple(Part)


class Times(msgspec.Struct, frozen=True):
    """Seconds by part, which exclude each other."""

    computing: float = 0.0
    transfer: float = 0.0
    waiting: float = 0.0
    paused: float = 0.0
    wasted: float = 0.0

    def __add__(self, other: Times) -> Times:
        return Times(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def values(self) -> tuple[float, ...]:
        return msgspec.structs.astuple(self)

    @property
    def total(self) -> float:
        return sum(self.values)

    @property
    def shares(self) -> dict[str, float]:
        """They add up to 1; where nothing is known all are 0."""
        positive = [max(0.0, value) for value in self.values]  # what was moved to `wasted` may leave a rounding error
        total = sum(positive)
        return {part.value: value / total if total > 0 else 0.0 for part, value in zip(PARTS, positive, strict=True)}

    def told(self) -> dict[str, float]:
        """For programs: the shares, and the seconds of which they are."""
        return {"seconds": self.total, **self.shares}


def plausible(spent: Sequence[Spent], known: float, since: float, now: float) -> bool:
    """Can a node have spent so much, which joined at `since` and has told of `known` seconds before?"""
    return known + sum(one.total for one in spent) <= max(0.0, now - since) + SLACK


class Report(msgspec.Struct, frozen=True):
    number: int  # the same report has the same, so that it counts once however often it is sent
    spent: list[Spent]


@final
class Timesheet:
    """Of a node: every moment since it began is of one part and of one result, or of none (0)."""

    def __init__(self, now: float, draw: Callable[[], int] = lambda: random.getrandbits(48)) -> None:
        self._since, self._draw = now, draw
        self._part, self._result, self._resting = Part.WAITING, 0, False
        self._open: dict[int, dict[Part, float]] = {}  # that is in no report yet
        self._sent: Report | None = None  # of which it is not known whether the server has heard it

    def at(self, part: Part, now: float) -> None:
        """What the node is at from now on."""
        self._count(now)
        self._part = part

    def on(self, result: int, now: float) -> None:
        """The result that time is spent on from now on."""
        self._count(now)
        self._result = result

    def rests(self, resting: bool, now: float) -> None:
        """While its owner lets it do nothing it is paused, whatever it is at."""
        self._count(now)
        self._resting = resting

    def was(self, counted: Part, really: Part, seconds: float) -> None:
        """So much of what was counted as one part was another, as came out afterwards."""
        of = self._open.get(self._result, {})
        seconds = min(seconds, of.get(counted, 0.0))
        if seconds > 0:
            of[counted] -= seconds
            of[really] = of.get(really, 0.0) + seconds

    def report(self, now: float) -> Report:
        """What is to be told to the server: the last report again, until it was heard."""
        self._count(now)
        if self._sent is None:
            spent = [Spent(result=result, **{part.value: value for part, value in of.items()}) for result, of in self._open.items()]
            self._sent = Report(self._draw(), spent[-SPENDING:])
            self._open = {}
        return self._sent

    def heard(self) -> None:
        self._sent = None

    def _count(self, now: float) -> None:
        of = self._open.setdefault(self._result, {})
        part = Part.PAUSED if self._resting else self._part
        of[part] = of.get(part, 0.0) + max(0.0, now - self._since)
        self._since = now
