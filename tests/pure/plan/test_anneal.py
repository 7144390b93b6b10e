"""A walk through combinations finds the cheapest without pricing all of them."""

from __future__ import annotations

import itertools
import math

import pytest

from laminar.plan.anneal import State, anneal, try_all


class Bowl:
    """Costs with neighbours that depend on each other, as splits do; some combinations cannot be."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        self.sizes, self.seed, self.here, self.before, self.calls = sizes, seed, None, None, 0

    def cost(self, state: State) -> float | None:
        if sum(state) % 13 == 12:
            return None
        own = sum(1.0 + math.sin(31.7 * (i + 1) * (one + 1) + self.seed) ** 2 for i, one in enumerate(state))
        between = sum(0.8 for a, b in itertools.pairwise(state) if a != b)
        return own + between

    def go(self, state: State) -> float | None:
        self.calls += 1
        cost = self.cost(state)
        if cost is not None:
            self.before, self.here = self.here, state
        return cost

    def back(self) -> None:
        assert self.before is not None
        self.here, self.before = self.before, None


@pytest.mark.parametrize("seed", range(5))
def test_within_two_per_cent_with_a_twentieth_of_the_evaluations(seed: int) -> None:
    sizes = [5] * 6
    best = try_all(Bowl(sizes, seed), sizes)
    walk = Bowl(sizes, seed)
    found = anneal(walk, sizes, [(k,) * 6 for k in range(5)], evaluations=best.space // 20, seed=seed)
    assert best.evaluated == best.space == 5**6
    assert found.evaluated <= best.space // 20 and found.cost <= 1.02 * best.cost
    assert walk.cost(found.state) == found.cost


def test_one_seed_is_one_walk() -> None:
    sizes = [4] * 5
    found = [anneal(Bowl(sizes, 1), sizes, [(0,) * 5], evaluations=60, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1]


def test_a_start_that_cannot_be_is_passed_over_and_none_is_an_error() -> None:
    class Never(Bowl):
        def cost(self, state: State) -> float | None:
            return None

    sizes = [3, 3]
    with pytest.raises(ValueError, match="none of the starts"):
        anneal(Never(sizes, 0), sizes, [(0, 0)], evaluations=9, seed=0)
    with pytest.raises(ValueError, match="none of the combinations"):
        try_all(Never(sizes, 0), sizes)


def test_it_ends_when_there_is_nothing_to_choose_and_when_told_so() -> None:
    assert anneal(Bowl([1, 1], 0), [1, 1], [(0, 0)], evaluations=100, seed=0).evaluated == 1
    spent = iter([0.0, 0.5, *([1.0] * 100)])
    assert anneal(Bowl([4] * 4, 0), [4] * 4, [(0,) * 4], evaluations=200, seed=0, spent=lambda: next(spent)).evaluated <= 3
    late = iter([0.0, 0.5, *([1.0] * 100)])
    assert try_all(Bowl([4] * 4, 0), [4] * 4, spent=lambda: next(late)).evaluated == 3


def test_every_start_has_its_part_of_the_time() -> None:
    began = []

    class Noted(Bowl):
        def go(self, state: State) -> float | None:
            began.append(state)
            return super().go(state)

    spent = (i / 40 for i in range(1000))
    anneal(Noted([9] * 6, 0), [9] * 6, [(0,) * 6, (4,) * 6, (8,) * 6], evaluations=10_000, seed=0, spent=lambda: next(spent))
    assert {(0,) * 6, (4,) * 6, (8,) * 6} <= set(began) and len(began) < 100
