"""Which gradients travel together (buckets.py), by their bytes alone: so that a planner can ask, too. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FIRST: Final = 1 << 20  # bytes: soon full, so that sending begins early
LATER: Final = 4 << 20


def dealt(sizes: Sequence[int], first: int = FIRST, later: int = LATER) -> list[list[int]]:
    """Indices of the parameters in each bucket, from the last one on. `sizes`: bytes of each."""
    found: list[list[int]] = []
    room = 0
    for i in reversed(range(len(sizes))):
        if not found or sizes[i] > room:
            found.append([])
            room = first if len(found) == 1 else later
        found[-1].append(i)
        room -= sizes[i]
    return found
