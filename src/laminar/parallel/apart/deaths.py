"""Deaths: who died when, and whether that is still bad luck. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final, final

MOST: Final = 10
WITHIN: Final = 60.0  # seconds


@final
class Deaths:
    """A machine may kill a process every now and then for days; one that dies again and again at once will not do better next time."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def add(self, who: str, now: float) -> bool:
        """False: it died MOST times within so many seconds."""
        times = self._times.setdefault(who, deque(maxlen=MOST))
        times.append(now)
        return len(times) < MOST or now - times[0] > WITHIN
