"""Samples to a target by batch, staleness, averaging and quorum."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.plan.steps_needed import PRIOR, StepsModel, fit

MODEL = StepsModel(1000.0, True, "")
batches = st.integers(1, 100_000)


def test_the_recipe_itself_is_one() -> None:
    assert MODEL.factor(64, 64) == 1.0


def test_a_batch_as_large_as_the_critical_one_takes_twice_the_samples_of_a_tiny_one() -> None:
    assert MODEL.factor(1000, 1e-9) == pytest.approx(2.0)
    assert MODEL.factor(128, 64) == pytest.approx(1128 / 1064)


@given(batches, batches, batches)
def test_larger_batches_take_more_samples_and_fewer_steps(base: int, a: int, b: int) -> None:
    small, large = sorted((a, b))
    assert MODEL.factor(small, base) <= MODEL.factor(large, base)
    assert MODEL.factor(small, base) / small >= MODEL.factor(large, base) / large * (1 - 1e-12)


def test_stale_gradients() -> None:
    assert MODEL.factor(64, 64, staleness=3.0) == pytest.approx(2.0)
    assert MODEL.factor(64, 64, staleness=0.0) == 1.0


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 5000), st.integers(1, 5000))
def test_averaging_takes_more_with_every_worker_and_every_step_apart(v: int, w: int, g: int, h: int) -> None:
    few, more = sorted((v, w))
    short, long = sorted((g, h))
    less = MODEL.factor(64, 64, every=short, workers=few)
    assert less <= MODEL.factor(64, 64, every=short, workers=more) * (1 + 1e-12)
    assert less <= MODEL.factor(64, 64, every=long, workers=few) * (1 + 1e-12)
    assert 1.0 <= less <= few * (1 + 1e-12)  # never worse than workers that do not meet at all


def test_averages_after_every_step_are_one_large_batch() -> None:
    assert MODEL.factor(64, 64, every=1, workers=4) == pytest.approx(MODEL.factor(256, 64))
    assert MODEL.factor(64, 64, every=1000, workers=1) == 1.0


def test_a_quorum_learns_from_a_smaller_batch_and_loses_the_rest() -> None:
    found = MODEL.factor(100, 100, quorum=0.8)
    assert found == pytest.approx((80 + 1000) / (100 + 1000) / 0.8)
    assert 1.0 < found < 1 / 0.8


def test_without_a_measurement_the_prior_is_said_to_be_one() -> None:
    assert StepsModel.of(None) == StepsModel(PRIOR, False, "a critical batch of 1,024 samples, assumed")
    assert StepsModel.of(500.0).measured
    assert not StepsModel.of(math.nan).measured
    assert not StepsModel.of(-3.0).measured


# From runs


@given(st.floats(10, 20_000), st.floats(1, 1e6), st.lists(st.integers(1, 4096), min_size=2, max_size=6, unique=True))
def test_exact_runs_give_the_critical_batch_back(critical: float, least: float, sizes: list[int]) -> None:
    found = fit([(size, least * (size + critical)) for size in sizes])
    assert found.measured
    assert found.critical_batch == pytest.approx(min(critical, 100.0 * max(sizes)), rel=1e-3)


def test_noisy_runs_are_averaged() -> None:
    runs = [(size, 10.0 * (size + 500) * noise) for size in (32, 128, 512, 2048) for noise in (0.95, 1.05)]
    assert fit(runs).critical_batch == pytest.approx(500, rel=0.1)


def test_where_runs_show_no_limit_or_no_use_it_is_cut_off() -> None:
    assert fit([(32, 1000.0), (64, 900.0)]).critical_batch == 6400.0
    assert fit([(32, 1000.0), (64, 3000.0)]).critical_batch == 0.0


@pytest.mark.parametrize("runs", [[], [(64, 1000.0)], [(64, 1000.0), (64, 1200.0)], [(64, 1000.0), (128, math.inf)]])
def test_fewer_than_two_batches_say_nothing(runs: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        fit(runs)
