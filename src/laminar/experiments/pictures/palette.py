"""Colours, dashes and markers that can be told apart by everybody: on light and dark pages, and in grey print.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), made darker on a light page and lighter on a dark one so that each
has a contrast of 3 or more against it (WCAG 2.1, 1.4.11); a test computes that, and how far they stay apart for readers without red, green
or blue cones. Colour is never alone: every series has its own marker and dash too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laminar.core.page import DARK, LIGHT

INK, PALE = "ink", "pale"
SERIES_LIGHT: Final = ("#00527f", "#b85000", "#007754", "#a8648a", "#c68900", "#4a9dcc")
SERIES_DARK: Final = ("#2a86c4", "#ff932e", "#19b487", "#b8709a", "#ffe042", "#7fdcff")
_DASHES: Final = ("solid", (0, (6, 2)), (0, (2, 1.5)), (0, (8, 2, 2, 2)), (0, (4, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")

# What pictures are drawn in. On a page, each becomes a CSS variable (svg.py), so that a picture follows the page into the dark.
TOKENS: Final = {
    "p-ink": LIGHT["text"],
    "p-dim": "#59636f",  # one step off the page's, so that no two names share a value
    "p-grid": "#dfe4ea",
    "p-soft": "#eef2f6",
    "p-card": "#fffffe",
    "p-pale": "#b4bcc6",
    **{f"p-{i}": value for i, value in enumerate(SERIES_LIGHT)},
}
TOKENS_DARK: Final = {
    "p-ink": DARK["text"],
    "p-dim": "#9aa4b1",
    "p-grid": "#2c343f",
    "p-soft": "#212832",
    "p-card": DARK["card"],
    "p-pale": "#525c69",
    **{f"p-{i}": value for i, value in enumerate(SERIES_DARK)},
}


@dataclass(frozen=True)
class Pen:
    """How one series is drawn."""

    colour: str
    dash: str | tuple[int, tuple[float, ...]]
    marker: str
    width: float = 1.8


BENCHMARK: Final = Pen(TOKENS["p-ink"], "solid", "X", 2.2)
REST: Final = Pen(TOKENS["p-pale"], "solid", "", 0.8)  # variants that are too many to be told apart


def pen(place: int) -> Pen:
    """The pen of the series at `place`; after six, colours come back with other dashes and markers."""
    count = len(SERIES_LIGHT)
    turn = place // count
    return Pen(SERIES_LIGHT[place % count], _DASHES[(place + turn) % count], _MARKERS[(place + 2 * turn) % count])
