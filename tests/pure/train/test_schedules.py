"""Schedules: pure functions of the step."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.train.schedules import Constant, Cosine, LearningRate, OneCycle, Schedule, Step, learning_rate


def rate(schedule: Schedule, *, warmup: int | float = 0, epochs: int = 4, steps: int = 25) -> LearningRate:
    return learning_rate(lr=0.5, schedule=schedule, warmup=warmup, epochs=epochs, steps_per_epoch=steps)


def test_constant() -> None:
    assert {rate(Constant())(step) for step in range(100)} == {0.5}


def test_step_falls_at_epochs() -> None:
    at = rate(Step(every=2, gamma=0.1))
    assert [at(step) for step in (0, 49, 50, 99)] == pytest.approx([0.5, 0.5, 0.05, 0.05])


def test_cosine_goes_from_lr_to_its_floor() -> None:
    at = rate(Cosine(floor=0.2))
    assert at(0) == 0.5
    assert at(50) == pytest.approx(0.3)
    assert at(99) == pytest.approx(0.1, abs=1e-3)
    assert all(at(step) > at(step + 1) for step in range(99))


def test_one_cycle_rises_and_falls() -> None:
    at = rate(OneCycle(rise=0.3))
    assert at(0) == pytest.approx(0.5 / 25)
    assert at(30) == pytest.approx(0.5)
    assert at(99) == pytest.approx(0.5 / 1e4)
    assert all(at(step) < at(step + 1) for step in range(29))
    assert all(at(step) > at(step + 1) for step in range(30, 99))


@pytest.mark.parametrize("warmup", [10, 0.1])
def test_warm_up_comes_before_the_schedule(warmup: int | float) -> None:
    at = rate(Cosine(), warmup=warmup)
    assert [at(step) for step in range(10)] == pytest.approx([0.05 * (step + 1) for step in range(10)])
    assert at(10) == 0.5
    assert at(55) == pytest.approx(0.25)


def test_a_warm_up_longer_than_the_run_ends_with_it() -> None:
    at = rate(Constant(), warmup=1000, epochs=1)
    assert at(24) == 0.5


SCHEDULES: Any = st.one_of(
    st.just(Constant()),
    st.builds(Step, every=st.integers(1, 5), gamma=st.floats(0.01, 1)),
    st.builds(Cosine, floor=st.floats(0, 0.99)),
    st.builds(OneCycle, rise=st.floats(0.01, 0.99), start_div=st.floats(1, 100), end_div=st.floats(1, 1e5)),
)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(SCHEDULES, st.one_of(st.integers(0, 300), st.floats(0, 0.99)), st.integers(1, 6), st.integers(1, 40))
def test_every_rate_is_a_positive_part_of_lr(schedule: Schedule, warmup: int | float, epochs: int, steps: int) -> None:
    at = rate(schedule, warmup=warmup, epochs=epochs, steps=steps)
    rates = [at(step) for step in range(epochs * steps)]
    assert all(math.isfinite(r) and 0 <= r <= 0.5 + 1e-12 for r in rates)
    assert all(r > 0 for r in rates[:-1])
