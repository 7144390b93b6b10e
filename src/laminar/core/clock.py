"""Clocks: deciding code is given one, so that tests need not wait."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol, final


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        ...


@final
class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.perf_counter()


@final
class FakeClock:
    """Stands still until told to advance."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


SYSTEM: Clock = SystemClock()


def iso(seconds: float) -> str:
    """2026-11-15T20:31:06Z"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
