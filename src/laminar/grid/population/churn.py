"""Churn: when desktops are on and how fast they are, drawn from dice. The kinds are plan/desktops.py, and
machines that are always on and alike."""

from __future__ import annotations

from typing import Final

import numpy as np

from laminar.plan import desktops
from laminar.plan.desktops import STEADY, Churn

HOUR: Final = 3600.0
KINDS: Final = {**desktops.KINDS, "steady": STEADY}

__all__ = ["HOUR", "KINDS", "Churn", "off_for", "on_for", "speed"]


def speed(churn: Churn, dice: np.random.Generator) -> float:
    """Against the median."""
    return float(np.exp(churn.spread * dice.standard_normal()))


def on_for(churn: Churn, dice: np.random.Generator) -> float:
    return float(dice.exponential(churn.on * HOUR)) if churn.off else float("inf")


def off_for(churn: Churn, dice: np.random.Generator, now: float) -> float:
    """Longer when it begins in the evening."""
    hour = now % (24 * HOUR) / HOUR
    night = hour >= 18 or hour < 6
    return float(dice.exponential(churn.off * HOUR * (churn.day if night else 1.0)))
