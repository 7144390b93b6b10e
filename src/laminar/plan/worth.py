"""Worth: how long it may take to choose a strategy, by how long training will take. No torch here.

Whoever asks for a plan says how long to look for it (--budget). `auto` has to know by itself, and the best choice cannot save more than
training takes. So

    planning    a tenth of what one process would train for, as some passes through the model tell it; never less than a second, in which
                there is an answer where things are known from earlier builds, and never more than five minutes. None at all where
                training takes no longer than workers take to begin
    trials      a tenth of what the best plan is predicted to train for: of the best three plans, of two, or none
    links       are measured once for a machine and not for one training: besides, by the first one that is three times as long as that
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from laminar.plan.choose import ROUNDS

SHARE: Final = 0.1  # of training
LEAST: Final = 1.0  # seconds of planning
MOST: Final = 300.0
BEGIN: Final = 3.0  # seconds until workers have begun, about
LINKS: Final = 15.0  # seconds that measuring them takes among two, about
LONGER: Final = 3.0  # times as long as measuring links: a training that is worth it


@dataclass(frozen=True)
class Allowed:
    """`training`: seconds that one process would take, about; None: nobody looked, since the user said how long to plan."""

    training: float | None
    seconds: float  # of planning, with what has to be measured for it; 0: none at all

    def spent(self, seconds: float) -> str:
        """For people: what was made of it."""
        most = "as asked for" if self.training is None else f"since {self._trains}"
        return f"planned for {seconds:.1f} s, with {_rough(self.seconds)} to spend {most}"

    @property
    def too_short(self) -> str:
        """For people: why one process trains, unplanned."""
        if self.seconds:
            return f"no plan was priced in {_rough(self.seconds)}, and {self._trains}"
        if (self.training or 0.0) <= BEGIN:
            return f"{self._trains}, and workers take about {BEGIN:g} s to begin"
        once = f"to measure how processes work together, which is done once and takes {LINKS:g} s (`laminar plan LAYER` does that)"
        return f"{self._trains}, too short {once}"

    @property
    def _trains(self) -> str:
        return f"one process would train for about {_rough(self.training or 0.0)}"


def planning(training: float, *, links: bool) -> Allowed:
    """`links`: they have to be measured first."""
    if training <= (LONGER * LINKS if links else BEGIN):
        return Allowed(training, 0.0)
    return Allowed(training, min(MOST, max(LEAST, SHARE * training)) + (LINKS if links else 0.0))


def trials(training: float, costs: Sequence[float]) -> tuple[int, int]:
    """How many of the best plans are tried, and how often each at most; (0, 0): none. `training`: seconds of it by the best plan;
    `costs`: of one trial of each plan, best first."""
    for count in range(len(costs), 1, -1):  # one alone need not be tried
        if rounds := int(SHARE * training / max(sum(costs[:count]), 1e-9)):
            return count, min(ROUNDS, rounds)
    return 0, 0


def _rough(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
