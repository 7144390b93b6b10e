"""Scales of axes for the values that were tried: ticks where they are, logarithmic where they rise by factors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axis import XAxis

TICKS: Final = 9
CHOSEN: Final = 20  # values that somebody has written down
_FACTOR: Final = 8.0  # between the least and the most: from there on values are taken to rise by factors


def by_factors(values: Sequence[float]) -> bool:
    """Three or more that go up by factors rather than by steps, such as 32, 128, 512."""
    rising = sorted(set(values))
    if len(rising) < 3 or rising[0] <= 0 or rising[-1] / rising[0] < _FACTOR:
        return False
    steps = [b - a for a, b in pairwise(rising)]
    return max(steps) > 2.5 * min(steps)


def counts(axis: XAxis, values: Sequence[float], most: int = TICKS) -> None:
    """Ticks at the values themselves; fewer where there are many."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    rising = sorted(set(values))
    if by_factors(rising):
        axis.axes.set_xscale("log")
    if len(rising) > CHOSEN:  # drawn by a search, or a fine row: no value is worth a tick of its own
        axis.set_major_locator(LogLocator(numticks=most) if by_factors(rising) else MaxNLocator(most))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(FixedLocator(rising[:: -(-len(rising) // most)]))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if abs(value) < 1e6 else f"{value:.3g}"))
