"""A finite loss can still be absurd: who looks at the figures is told."""

from __future__ import annotations

import math

import pytest

from laminar.core.figures import number
from laminar.train.misgivings import misgivings

TEN = math.log(10)


@pytest.mark.parametrize(
    ("loss", "first", "words"),
    [
        (3.2e21, 2.31, ["3.2e+21", "1.4e+21 times", "2.3026", "lower lr (it is 1e+20)"]),
        (50.0, 2.31, ["21.7 times", "lower lr"]),
        (50.0, None, ["lower lr"]),
        (50.0, 4000.0, ["train longer", "began at 4,000"]),  # far away still, but on its way
    ],
)
def test_a_loss_far_above_guessing_is_told(loss: float, first: float | None, words: list[str]) -> None:
    said = misgivings(loss=loss, guess=TEN, first=first, lr=1e20)
    assert said.startswith("warning: ")
    for word in words:
        assert word in said
    assert len(said) < 250


@pytest.mark.parametrize("loss", [0.0, 0.4, TEN, 1.9 * TEN])
def test_what_learnt_or_is_merely_too_sure_of_itself_is_not(loss: float) -> None:
    assert misgivings(loss=loss, guess=TEN, first=TEN, lr=0.1) == ""


def test_guessing_may_be_perfect() -> None:
    """Targets that do not vary."""
    assert misgivings(loss=0.0, guess=0.0, first=1.0, lr=0.1) == ""
    assert "lower lr" in misgivings(loss=3.0, guess=0.0, first=1.0, lr=0.1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.0000"), (0.93751, "0.9375"), (3.1e-7, "3.1e-07"), (12.55, "12.6"), (14203.4, "14,203"), (-2.5e30, "-2.5e+30")],
)
def test_numbers_are_never_wide(value: float | None, text: str) -> None:
    assert number(value) == text
    assert len(text) <= 9
