"""Which plan is chosen by trials that differ from time to time."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from laminar.plan.choose import ROUNDS, fastest, next_trial, usual


def chosen(true: Sequence[float], noise: float, disturbed: float, seed: int, rounds: int = ROUNDS) -> tuple[int, list[int]]:
    """The plan, and those that were tried, in order. `disturbed`: the share of trials that took half as long again; the machine becomes
    slower and slower, too."""
    draw, times, order = random.Random(seed), [list[float]() for _ in true], list[int]()
    while (plan := next_trial(times, rounds=rounds)) is not None:
        drift = (1 + 0.005 * len(order)) * (1.5 if draw.random() < disturbed else 1.0)
        times[plan].append(true[plan] * math.exp(draw.gauss(0, noise)) * drift)
        order.append(plan)
    return fastest(times), order


def wrong(noise: float, disturbed: float, rounds: int = ROUNDS) -> float:
    """How often a plan is chosen that takes more than 1.05 times as long as the best."""
    cases = [(1.0, 1.08, 1.15), (1.08, 1.0, 1.15), (1.15, 1.08, 1.0), (1.3, 1.2, 1.0)]
    found = [true[chosen(true, noise, disturbed, seed, rounds)[0]] > 1.05 * min(true) for true in cases for seed in range(100)]
    return sum(found) / len(found)


def test_trials_in_turns_choose_right_where_one_of_each_does_not() -> None:
    assert wrong(0.03, 0.0) <= 0.01
    assert wrong(0.02, 0.05) <= 0.01 < 0.05 < wrong(0.02, 0.05, rounds=1)
    assert wrong(0.05, 0.1) < 0.5 * wrong(0.05, 0.1, rounds=1)


def test_plans_are_tried_there_and_back() -> None:
    assert chosen((1.0, 1.1, 1.15), 0.0, 0.0, 0)[1] == [0, 1, 2, 2, 1, 0, 0, 1, 2]


def test_what_is_clearly_slower_or_as_good_as_equal_is_not_tried_again() -> None:
    assert chosen((1.0, 1.7, 1.8), 0.0, 0.0, 0)[1] == [0, 1, 2], "no doubt after one trial each"
    assert chosen((1.0, 1.3, 1.8), 0.0, 0.0, 0)[1] == [0, 1, 2, 1, 0]
    assert chosen((1.0, 1.01, 1.8), 0.0, 0.0, 0)[1] == [0, 1, 2, 1, 0], "which of the two is no matter"


def test_what_cannot_be_tried_is_left_out() -> None:
    assert next_trial([[], [1.0], []], failed=[0]) == 2
    assert next_trial([[], [1.0], []], failed=[0, 2]) is None
    assert next_trial([[], []], failed=[0, 1]) is None
    assert fastest([[], [2.0], [1.0, 9.0]]) == 2
    with pytest.raises(ValueError):
        fastest([[], []])


def test_disturbances_only_add() -> None:
    assert usual([1.0]) == 1.0 and usual([1.0, 5.0]) == 1.0 and usual([1.0, 1.1, 9.0]) == pytest.approx(1.05)
