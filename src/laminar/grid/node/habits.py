"""Habits: which share of the time the owner lets the node work, how fast it is, and how fast its line. They outlive the process, for a node
that starts at login begins every day; and days fade, so that what the owner did last month says little.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError

HALF: Final = 3 * 86400.0  # seconds after which a day counts half
EVERY: Final = 300.0  # seconds between two times that they are written
NEW: Final = 0.3  # what the last task counts in the speed


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    worked: float = 0.0  # seconds, faded
    rested: float = 0.0
    at: float = 0.0  # seconds since 1970
    speed: float = 0.0  # samples a second; 0: not known
    up: float = 0.0  # bytes a second of the line to the server; 0: not known
    down: float = 0.0
    cpu: float = 1.0  # the share of the processors that it was measured with


@final
class Habits:
    """Pure: whoever has a clock says what time it is."""

    def __init__(self, kept: Kept, *, cpu: float) -> None:
        self._worked, self._rested, self._at = (max(0.0, value) for value in (kept.worked, kept.rested, kept.at))
        self._cpu = cpu
        self.speed = max(0.0, kept.speed) if kept.cpu == cpu else 0.0
        self.up, self.down = max(0.0, kept.up), max(0.0, kept.down)

    def spent(self, seconds: float, *, resting: bool, now: float) -> None:
        """So many, just now. A clock that was put back fades nothing."""
        fade = 0.5 ** (max(0.0, now - self._at) / HALF) if self._at else 1.0
        self._worked, self._rested, self._at = self._worked * fade, self._rested * fade, now
        if resting:
            self._rested += seconds
        else:
            self._worked += seconds

    @property
    def available(self) -> float:
        """Share of the time that the node has run in which it was allowed to work."""
        return min(1.0, max(0.0, 1.0 - self._rested / max(self._worked + self._rested, 1.0)))

    def measured(self, speed: float) -> None:
        self.speed = (1 - NEW) * self.speed + NEW * speed if self.speed else speed

    def kept(self) -> Kept:
        return Kept(worked=self._worked, rested=self._rested, at=self._at, speed=self.speed, up=self.up, down=self.down, cpu=self._cpu)


def read(path: Path) -> Kept:
    """What cannot be read is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Kept()


def write(path: Path, kept: Kept) -> None:
    """Not flushed, and not where the disk is full: it is an estimate."""
    with contextlib.suppress(OSError, LaminarError):
        atomic.write_unflushed(path, msgspec.json.encode(kept))
