"""Churn: when desktops are on, how fast they are, and how they leave. Distributions by name, each a function of dice.

desktop     on for hours, mostly by day; a tenth are fast; one task in twenty is lost with its machine (BOINC's wiki: about 5 %)
lab         on all day, alike, reliable
wild        on for minutes, a hundredfold spread of speeds, a fifth of the tasks is lost
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

HOUR: Final = 3600.0


@dataclass(frozen=True)
class Churn:
    on: float  # hours, mean
    off: float
    spread: float  # of log speed
    loses: float  # share of tasks that are never answered
    day: float  # how much longer machines are off at night: 1 not at all


KINDS: Final[dict[str, Churn]] = {
    "desktop": Churn(on=4, off=8, spread=0.8, loses=0.05, day=2.0),
    "lab": Churn(on=12, off=2, spread=0.2, loses=0.01, day=1.0),
    "wild": Churn(on=0.5, off=1.5, spread=1.5, loses=0.2, day=1.5),
}


def speed(churn: Churn, dice: np.random.Generator) -> float:
    """Against the median."""
    return float(np.exp(churn.spread * dice.standard_normal()))


def on_for(churn: Churn, dice: np.random.Generator) -> float:
    return float(dice.exponential(churn.on * HOUR))


def off_for(churn: Churn, dice: np.random.Generator, now: float) -> float:
    """Longer when it begins in the evening."""
    hour = now % (24 * HOUR) / HOUR
    night = hour >= 18 or hour < 6
    return float(dice.exponential(churn.off * HOUR * (churn.day if night else 1.0)))
