"""Intervals: exact where they can be counted out, and honest about the level where trials are few."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from laminar.experiments.intervals import Interval, compare, difference, of_median, of_pairs, ratio

NUMBERS = some.lists(some.floats(0.1, 1000), min_size=2, max_size=8)


def test_levels_of_few_trials_are_those_of_the_tests() -> None:
    assert of_median([1, 2, 3]) == Interval(1, 3, 0.75)
    assert of_median([3, 1, 2, 5, 4, 6]) == Interval(1, 6, 1 - 2 / 64)
    nine = of_median(list(range(9)))
    assert nine is not None
    assert (nine.low, nine.high) == (1, 7)  # 1 - 2 (1 + 9) / 512 = 96 %
    assert nine.level == pytest.approx(1 - 20 / 512)
    three = of_pairs([x - y for x in (5, 6, 7) for y in (1, 2, 3)], 3, 3)
    assert three == Interval(2, 6, 1 - 2 / 20)
    assert of_median([1]) is None
    assert of_pairs([1.0], 1, 1) is None


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (4, 3), (5, 5)])
def test_the_rank_sum_level_is_that_of_all_orders(n: int, m: int) -> None:
    """Of all ways to mix two groups alike, the share in which the interval of differences holds 0."""
    holds = ways = 0
    level = 0.0
    for places in itertools.combinations(range(n + m), n):
        values = [float(p) for p in places]
        others = [float(p) for p in range(n + m) if p not in places]
        found = of_pairs([x - y for x in values for y in others], n, m)
        assert found is not None
        ways += 1
        holds += found.low <= 0 <= found.high
        level = found.level
    assert ways == math.comb(n + m, n)
    assert holds / ways == pytest.approx(level)


def test_large_groups_go_by_the_normal_law() -> None:
    rng = random.Random(1)
    values, others = [rng.gauss(0, 1) for _ in range(60)], [rng.gauss(0.0, 1) for _ in range(60)]
    found = difference(values, others)
    assert found is not None and found[1] is not None
    assert found[1].level == pytest.approx(0.95, abs=0.01)
    assert found[1].low < 0 < found[1].high


@given(NUMBERS, NUMBERS)
def test_the_point_lies_in_its_interval(values: list[float], others: list[float]) -> None:
    for found in (ratio(values, others), difference(values, others)):
        assert found is not None and found[1] is not None
        assert found[1].low <= found[0] <= found[1].high


@given(NUMBERS)
def test_nothing_differs_from_itself(values: list[float]) -> None:
    assert compare(values, values) in ("inside the noise", "too few repeats")


def test_verdicts_need_trials_and_distance() -> None:
    assert compare([10, 11, 12], [1, 2, 3]) == "more"
    assert compare([1, 2, 3], [10, 11, 12]) == "less"
    assert compare([1, 5, 9], [2, 4, 8]) == "inside the noise"
    assert compare([10, 11], [1, 2]) == "too few repeats"  # no two pairs can be sure
    assert compare([10], [1]) == "too few repeats"


def test_ratios_of_what_may_be_zero_say_nothing() -> None:
    assert ratio([0.0, 1.0], [1.0, 2.0]) is None
    assert ratio([], [1.0]) is None
