"""Budget: the time that there is for an answer, of which everything takes: measuring, tracing, pricing, looking further. No torch here.

What has been begun is ended (an operator, a pass, a trace), since half of it would be worth nothing; then nothing more is begun.
"""

from __future__ import annotations

import math
from typing import final

from laminar.core.clock import SYSTEM, Clock


class OutOfTime(Exception):
    """What was asked for would have to be measured first, and there is no time for that. Whoever searches leaves it out."""


@final
class Budget:
    """Counts from when it is made."""

    def __init__(self, seconds: float = math.inf, clock: Clock = SYSTEM) -> None:
        self.seconds, self._clock, self._began = seconds, clock, clock.monotonic()

    @property
    def spent(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    @property
    def over(self) -> bool:
        return self.left <= 0

    def share(self) -> float:
        """How much of it is over: 1 is all."""
        return self.spent / self.seconds if self.seconds > 0 else 1.0

    def part(self, share: float) -> Budget:
        """A share of what is left, from now on."""
        return Budget(max(0.0, share * self.left), self._clock)


ENDLESS = Budget()
