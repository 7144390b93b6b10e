"""Anneal: look for the cheapest of many combinations without pricing all of them, by a random walk that takes a worse one now and then.

Metropolis' rule on the *relative* difference (FlexFlow's is on milliseconds, so that its temperature depends on the model; Jia et al.,
arXiv 1807.05358), colder and colder, from several starts, seeded. What was priced once is remembered and costs nothing. No torch here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Protocol

State = tuple[int, ...]  # of each thing that can be chosen, which of its options

COLD: Final = 200.0  # 1 / temperature at the end: one in a hundred takes a change for the worse by 2 %
WARM: Final = 20.0  # and at the beginning
FOLLOW: Final = 0.35  # how often a neighbour is made like the one that changed: splits that go on cost no exchange between


class Priced(Protocol):
    """A simulation that can be led from one combination to another, and one step back."""

    def go(self, state: State) -> float | None:
        """The cost; None if it cannot be."""

    def back(self) -> None:
        """To where it was before the last `go`, which gave a cost."""


@dataclass(frozen=True)
class Best:
    state: State
    cost: float
    evaluated: int  # combinations that were priced
    space: int  # that there are


def size_of(options: Sequence[int]) -> int:
    return math.prod(options)


def never() -> float:
    """A share of the time, where there is no end of it."""
    return 0.0


def try_all(priced: Priced, options: Sequence[int], *, spent: Callable[[], float] = never) -> Best:
    """The last thing changes first: edits near the end of a step are the cheapest. `spent`: the share of the time that is over; fewer are
    evaluated then than there are."""
    best: tuple[float, State] | None = None
    count = 0
    for state in product(*map(range, options)):
        if count and spent() >= 1.0:
            break
        count += 1
        cost = priced.go(state)
        if cost is not None and (best is None or cost < best[0]):
            best = cost, state
    if best is None:
        raise ValueError("none of the combinations can be")
    return Best(best[1], best[0], count, size_of(options))


def anneal(
    priced: Priced,
    options: Sequence[int],
    starts: Sequence[State],
    *,
    evaluations: int,
    seed: int,
    spent: Callable[[], float] = never,
) -> Best:
    """`starts`: combinations to begin with, each of which gets an equal part of the evaluations, and of the time. `spent`: the share of the
    time that is over."""
    draw = random.Random(seed)
    known: dict[State, float | None] = {}
    best: tuple[float, State] | None = None

    def cost_of(state: State) -> float | None:
        known[state] = found = priced.go(state)
        return found

    free = [i for i, count in enumerate(options) if count > 1]
    for number, start in enumerate(starts):
        until = evaluations * (number + 1) // len(starts)
        if len(known) >= until or (known and spent() * len(starts) >= number + 1):
            continue
        here = cost_of(start) if start not in known else known[start]
        if here is None:
            continue
        priced.go(start)
        state, began, unchanged = start, len(known), 0
        if best is None or here < best[0]:
            best = here, state
        while free and len(known) < until and unchanged < 40 * len(free) and (late := spent() * len(starts) - number) < 1.0:
            heat = WARM * (COLD / WARM) ** max(late, (len(known) - began) / max(1, until - began))
            other = _moved(state, options, free, draw)
            seen = other in known
            cost = known[other] if seen else cost_of(other)
            unchanged += 1
            if cost is None:
                continue
            taken = cost <= here or draw.random() < math.exp(-heat * (cost - here) / here)
            if taken:
                if seen:
                    priced.go(other)
                unchanged = unchanged if cost == here else 0
                state, here = other, cost
                if cost < best[0]:
                    best = cost, state
            elif not seen:
                priced.back()
    if best is None:
        raise ValueError("none of the starts can be")
    return Best(best[1], best[0], len(known), size_of(options))


def _moved(state: State, options: Sequence[int], free: Sequence[int], draw: random.Random) -> State:
    """Another option for one thing, and perhaps the same for those beside it."""
    at = draw.randrange(len(free))
    i = free[at]
    chosen = draw.randrange(options[i] - 1)
    chosen += chosen >= state[i]
    found = list(state)
    found[i] = chosen
    for step in (1, -1):
        near = at + step
        while 0 <= near < len(free) and draw.random() < FOLLOW and chosen < options[free[near]]:
            found[free[near]] = chosen
            near += step
    return tuple(found)
