"""How a mirror does: its speed as an exponential average, its failures in a row, its rests, its lies. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, final

from laminar.data.mirrors.faults import Kind

HALF_LIFE: Final = 1.0  # seconds after which an old speed counts half
WINDOW: Final = 0.2  # seconds over which a speed is taken


@dataclass(frozen=True)
class Patience:
    """How long is waited for what. Seconds."""

    stall: float = 5.0  # without a byte
    glance: float = 0.5  # before a connection with nothing to do looks at what another one is about
    first_rest: float = 0.2  # doubled with every failure in a row
    longest_rest: float = 30.0
    tries: int = 3  # failures in a row after which a mirror counts as down; it is still tried after its rests
    lies: int = 3  # and more than one in FORGIVEN of what it sent: banned
    setup: float = 0.05  # what it costs to begin anew


FORGIVEN: Final = 50


def blend(old: float | None, rate: float, seconds: float) -> float:
    if old is None:
        return rate
    weight: float = 0.5 ** (seconds / HALF_LIFE)
    return weight * old + (1 - weight) * rate


@final
class Meter:
    """Bytes a second of one connection while it has work."""

    __slots__ = ("_bytes", "_since", "speed")

    def __init__(self) -> None:
        self.speed: float | None = None
        self._since = 0.0
        self._bytes = 0

    def begin(self, now: float) -> None:
        self._since, self._bytes = now, 0

    def add(self, count: int, now: float) -> float | None:
        """The speed over a window that has just ended; else None."""
        self._bytes += count
        seconds = now - self._since
        if seconds < WINDOW:
            return None
        rate = self._bytes / seconds
        self.speed = blend(self.speed, rate, seconds)
        self.begin(now)
        return rate

    def rate(self, now: float) -> float | None:
        """The speed as it stands, silence included; None before anything can be said."""
        seconds = now - self._since
        if seconds < WINDOW:
            return self.speed
        return blend(self.speed, self._bytes / seconds, seconds)


@dataclass
class Health:
    """One mirror."""

    patience: Patience
    speed: float | None = None  # of one connection, on average
    in_a_row: int = 0
    failed_at: float = -1.0
    rests_until: float = 0.0
    lies: int = 0
    proved: int = 0
    banned: bool = False
    whole: bool = False  # cannot begin in the middle
    counts: Counter[Kind] = field(default_factory=Counter)
    last: str = ""

    @property
    def down(self) -> bool:
        return self.banned or self.in_a_row >= self.patience.tries

    @property
    def expected(self) -> float:
        """Its speed; one that was never tried is worth a try."""
        return float("inf") if self.speed is None else self.speed

    def arrived(self, rate: float | None, seconds: float = WINDOW) -> None:
        self.in_a_row = 0
        if rate is not None:
            self.speed = blend(self.speed, rate, seconds)

    def silent(self, seconds: float) -> None:
        """A piece was taken from it before it gave a byte."""
        self.speed = blend(self.speed, 0.0, seconds)

    def failed(self, now: float, *, started: float, weight: int) -> bool:
        """Take note of a failure of the mirror itself; whether it rests now. What began before the last one is the same failure."""
        if started <= self.failed_at:
            return False
        self.failed_at = now
        self.in_a_row += weight
        doubled = self.patience.first_rest * 2.0 ** min(self.in_a_row - 1, 30)
        self.rests_until = now + min(doubled, self.patience.longest_rest)
        return True

    def lied(self) -> bool:
        """Whether it is banned now."""
        self.lies += 1
        self.banned = self.lies >= self.patience.lies and self.lies * FORGIVEN > self.proved
        return self.banned
