"""Cuts: where a row of operators is cut into stages, so that the slowest of them is as fast as can be. No torch here.

By dynamic programming over all places: best[s][i] is the time of the slowest of s stages over the first i operators, when these are cut
in the best way (the partition of PipeDream, Narayanan et al., SOSP 2019, for workers that are all alike).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class TooFew(ValueError):
    """Operators that cannot be cut so often."""

    def __init__(self, most: int) -> None:
        self.most = most


def cut_evenly(costs: Sequence[float], tolls: Sequence[float | None], stages: int) -> list[int]:
    """The stage of each operator. `tolls`: what it costs the stage before a place to hand over what is needed behind it; None: it cannot be
    cut there."""
    count = len(costs)
    places = [0, *(i for i in range(1, count) if tolls[i] is not None), count]
    if len(places) - 1 < stages:
        raise TooFew(len(places) - 1)
    sums = np.concatenate([[0.0], np.cumsum(costs)])[places]
    toll = np.array([0.0, *(tolls[i] or 0.0 for i in places[1:-1]), 0.0])
    # by the slowest stage first, then by what is handed over in all
    best = np.full((stages + 1, len(places)), np.inf)
    paid = np.full((stages + 1, len(places)), np.inf)
    came = np.zeros((stages + 1, len(places)), dtype=int)
    best[0, 0] = paid[0, 0] = 0.0
    for s in range(1, stages + 1):
        for i in range(s, len(places)):
            slowest = np.maximum(best[s - 1, :i], sums[i] - sums[:i] + toll[i])
            sent = paid[s - 1, :i] + toll[i]
            equal = np.flatnonzero(slowest == slowest.min())
            j = int(equal[np.argmin(sent[equal])])
            best[s, i], paid[s, i], came[s, i] = slowest[j], sent[j], j
    ends, at = [], len(places) - 1
    for s in range(stages, 0, -1):
        ends.append(places[at])
        at = int(came[s, at])
    found: list[int] = []
    for stage, end in enumerate(reversed(ends)):
        found += [stage] * (end - len(found))
    return found
