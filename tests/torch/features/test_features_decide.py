"""The verdict on keeping, from numbers alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.train.features_decide import BUDGET, LOOKING, Costs, budget, decide, parse_size, too_short

DEAR = Costs(
    train=60_000,
    test=10_000,
    missing=70_000,
    kept=0,
    epochs=10,
    compute=1e-3,
    read=1e-6,
    read_plain=1e-6,
    write=2e-6,
    row_bytes=1000,
    budget=2 << 30,
    free=100 << 30,
)


def test_a_dear_prefix_is_kept_and_the_reason_has_the_numbers() -> None:
    decision = decide(DEAR)
    assert decision.keep
    assert "computing 1.000 ms a sample, reading 0.001 ms" in decision.reason
    assert "701 s computed, 71 s kept" in decision.reason
    assert "70 MB of 2.1 GB" in decision.reason


def test_a_cheap_prefix_with_long_rows_is_not() -> None:
    decision = decide(dataclasses.replace(DEAR, compute=1e-6, read=5e-5))
    assert not decision.keep
    assert "reading is no cheaper" in decision.reason


def test_one_epoch_is_kept_for_the_builds_to_come_unless_writing_is_dear() -> None:
    assert decide(dataclasses.replace(DEAR, epochs=1)).keep
    decision = decide(dataclasses.replace(DEAR, epochs=1, write=5e-4))
    assert not decision.keep
    assert "more than it saves" in decision.reason


def test_rows_that_are_there_cost_no_writing() -> None:
    assert decide(dataclasses.replace(DEAR, epochs=1, write=5e-4, missing=0, kept=70_000)).keep


def test_a_slow_day_does_not_change_the_route_of_rows_that_are_there() -> None:
    there = dataclasses.replace(DEAR, compute=1e-5, read=1.5e-5, missing=0, kept=70_000)
    assert decide(there).keep
    assert not decide(dataclasses.replace(there, missing=1)).keep
    assert not decide(dataclasses.replace(there, read=3e-5)).keep


def test_the_budget_counts_what_is_there_too() -> None:
    tight = dataclasses.replace(DEAR, budget=70_000_000)
    assert decide(tight).keep
    decision = decide(dataclasses.replace(tight, kept=1))
    assert not decision.keep
    assert "more than the budget of 70 MB (LAMINAR_FEATURES_BUDGET)" in decision.reason


def test_the_recipe_has_the_last_word_but_the_disk_is_larger_than_that() -> None:
    assert not decide(DEAR, "never").keep
    assert decide(dataclasses.replace(DEAR, read=1.0, budget=1), "always").keep
    decision = decide(dataclasses.replace(DEAR, free=1000), "always")
    assert not decision.keep
    assert "the disk has 1.0 kB left" in decision.reason


def test_budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMINAR_FEATURES_BUDGET", raising=False)
    limit, free = budget(tmp_path)
    assert limit == min(BUDGET, free // 4)
    monkeypatch.setenv("LAMINAR_FEATURES_BUDGET", "10MB")
    assert budget(tmp_path)[0] == 10_000_000
    assert parse_size("1.5 GiB", 0) == 3 << 29
    assert parse_size("30%", 1000) == 300
    assert parse_size("17", 0) == 17


def test_a_budget_that_is_no_size_is_an_error_with_an_example() -> None:
    with pytest.raises(LaminarError) as caught:
        parse_size("lots", 0)
    assert caught.value.code == "L008"
    assert "20GB" in caught.value.message


@pytest.mark.parametrize(("epochs", "looked_for"), [(1, False), (3, False), (1000, True)])
def test_a_short_training_is_not_worth_looking(epochs: int, looked_for: bool) -> None:
    reason = too_short(epochs=epochs, samples=900, compute=3e-5, modules=12)
    assert (reason == "") is looked_for
    if not looked_for:
        assert "0.030 ms a sample" in reason and f"{epochs} epoch" in reason


def test_looking_takes_longer_the_more_modules_there_are() -> None:
    enough = LOOKING * 2
    assert too_short(epochs=1, samples=1, compute=enough, modules=1) == ""
    assert too_short(epochs=1, samples=1, compute=enough, modules=100)
