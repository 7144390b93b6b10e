"""Cuts: where a pipeline is cut for lanes of unlike speed, between modules. No torch here.

The executor cuts for workers that are all alike (parallel/stages/cut.py). Where nodes differ, the same dynamic program goes with the speed
of each lane: best[s][i] is the time of the slowest of the first s stages over the first i modules. With m micro-batches a step takes about
the sum of all stages and (m - 1) times the slowest (Zheng et al., arXiv 2201.12023), so it is the slowest that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from laminar.plan.facts import ModelCost


def module_costs(cost: ModelCost) -> list[tuple[str, float]]:
    """Modules in the order in which they are run, and seconds of their operators there and back. Operators outside of any belong to the
    module before them; a module that is run again is not a place to cut at."""
    found: list[tuple[str, float]] = []
    seen: set[str] = set()
    for one in cost.operators:
        spent = one.forward + one.inputs + one.weights
        if one.path and one.path not in seen:
            seen.add(one.path)
            found.append((one.path, spent))
        elif found:
            found[-1] = found[-1][0], found[-1][1] + spent
        else:
            found.append(("", spent))
    return found


def cut_by_speed(modules: Sequence[tuple[str, float]], speeds: Sequence[float]) -> list[str] | None:
    """The modules that begin the second and later stages; None if there are fewer modules than stages."""
    count, stages = len(modules), len(speeds)
    if count < stages:
        return None
    sums = [0.0]
    for _, spent in modules:
        sums.append(sums[-1] + spent)
    best = [[inf] * (count + 1) for _ in range(stages + 1)]
    came = [[0] * (count + 1) for _ in range(stages + 1)]
    best[0][0] = 0.0
    for s, speed in enumerate(speeds, 1):
        for i in range(s, count + 1):
            for j in range(s - 1, i):
                slowest = max(best[s - 1][j], (sums[i] - sums[j]) / speed)
                if slowest < best[s][i]:
                    best[s][i], came[s][i] = slowest, j
    begins, at = [], count
    for s in range(stages, 0, -1):
        at = came[s][at]
        begins.append(at)
    return [modules[i][0] for i in reversed(begins[:-1])]
