"""Fits: the law is found again in points that were made by it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from laminar.experiments.fit import amdahl, critical_batch, strong_scaling, weak_scaling

BATCHES = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


@given(some.floats(40, 8000), some.floats(10, 1e5))
def test_the_critical_batch_is_found_again(b_crit: float, s_min: float) -> None:
    found = critical_batch([(b, s_min * (1 + b_crit / b)) for b in BATCHES])
    assert found is not None
    assert found.b_crit == pytest.approx(b_crit, rel=1e-3)
    assert found.s_min == pytest.approx(s_min, rel=1e-3)
    assert found.found
    assert found.steps(b_crit) == pytest.approx(2 * s_min, rel=1e-3)


def test_noise_of_a_tenth_moves_it_little() -> None:
    rng = random.Random(3)
    found = critical_batch([(b, 100 * (1 + 500 / b) * rng.uniform(0.9, 1.1)) for b in BATCHES for _ in range(3)])
    assert found is not None
    assert 350 < found.b_crit < 700
    assert 0.01 < found.error < 0.1


def test_what_says_nothing_is_not_fitted() -> None:
    assert critical_batch([(32, 10), (64, 5)]) is None
    assert critical_batch([(32, 10), (32, 11), (64, 5)]) is None
    perfect = critical_batch([(b, 1e6 / b) for b in BATCHES])  # no end of perfect scaling in sight
    assert perfect is not None
    assert not perfect.found


def test_scaling() -> None:
    strong = strong_scaling({1: 10.0, 2: 6.0, 4: 5.0})
    assert [(one.workers, one.speed_up) for one in strong] == [(1, 1.0), (2, pytest.approx(10 / 6)), (4, 2.0)]
    assert [one.efficiency for one in strong] == [1.0, pytest.approx(10 / 12), 0.5]
    weak = weak_scaling({1: 10.0, 2: 12.5})
    assert (weak[1].efficiency, weak[1].speed_up) == (0.8, 1.6)
    assert strong_scaling({}) == weak_scaling({}) == []
    assert amdahl({1: 10.0, 2: 6.0, 4: 4.0}) == pytest.approx(0.2)
    assert amdahl({2: 10.0}) is None
