"""Tables on the screen: cells as wide as what they say."""

from __future__ import annotations

import pytest

from laminar.cli.experiment_ready import command_of
from laminar.cli.experiment_tables import relative, show_summary
from laminar.experiments.listing import listed
from laminar.experiments.statistics import summary
from laminar.experiments.view import view
from laminar.experiments.words import plain
from tests.pure.experiments import made_up_experiments
from tests.pure.experiments.made_up_trials import curve, description, trial


@pytest.mark.parametrize(("seconds", "shown"), [(11.0, "110.0"), (220.9, "2209.0"), (1e31, "1.0e+32")])
def test_per_cent_of_a_figure_that_ran_away_is_short(seconds: float, shown: str) -> None:
    described = description()
    one, two, _ = described.variants
    trials = [trial(one.id, n, seconds=10.0) for n in range(2)] + [trial(two.id, n, seconds=seconds) for n in range(2)]
    text = relative(summary(described, trials).rows[1].figures["seconds"])
    assert text.startswith(f"{shown} [{shown}, {shown}]")


@pytest.mark.parametrize(("cell", "shown"), [(1, "1"), (2048, "2,048"), (1.0, "1.0000"), (None, "-"), ("strong", "strong")])
def test_what_is_counted_has_no_decimals(cell: float | str | None, shown: str) -> None:
    assert plain(cell) == shown


def test_the_benchmark_is_shown_with_its_spread(capsys: pytest.CaptureFixture[str]) -> None:
    described = description({"workers": [1]}, measures=("accuracy",))
    (one,) = described.variants
    values = (0.8757, 0.8681, 0.8760)
    show_summary(summary(described, [trial(one.id, n, metrics={"accuracy": value}) for n, value in enumerate(values)]))
    shown = capsys.readouterr().out
    assert "0.8757 (0.8681 to 0.8760)" in shown
    assert "%" not in shown  # of one variant alone
    assert "medians; in parentheses its spread, from the least to the most" in shown
    both = description({"workers": [1, 2]}, measures=("accuracy", "overfit"))
    trials = [trial(one.id, n, metrics={"accuracy": value, "overfit": 0.1 * n}) for one in both.variants for n, value in enumerate(values)]
    show_summary(summary(both, trials))
    shown = capsys.readouterr().out
    assert "100 (99.1 to 100.0)" in shown
    assert "0 (-0.1000 to +0.1000)" in shown
    assert "accuracy %" in shown
    assert "overfit diff" in shown  # differences are no per cent
    assert "overfit %" not in shown


def test_trials_that_halving_stopped_are_not_taken_for_missing(capsys: pytest.CaptureFixture[str]) -> None:
    described = description({"workers": [1, 2, 3]}, repeats=1)
    trials = [trial(described.benchmark, seconds=3.0), *(trial(one.id, outcome="stopped", seconds=1.0) for one in described.variants[1:])]
    show_summary(summary(described, trials))
    assert "1 of 3 trials, 2 stopped early in " in capsys.readouterr().out
    assert listed("x", lambda _: view(described, trials)).stopped == 2


def test_many_variants_that_were_not_run_yet_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    described = description({"workers": list(range(1, 102))}, repeats=1)
    show_summary(summary(described, [trial(one.id, seconds=3.0) for one in described.variants[:2]]))
    shown = capsys.readouterr().out
    assert "and 99 variants of which no trial has been run yet" in shown
    assert "2 workers" in shown
    assert "3 workers" not in shown
    few = description({"workers": [1, 2, 3]}, repeats=1)
    show_summary(summary(few, [trial(few.benchmark, seconds=3.0)]))
    assert "3 workers" in capsys.readouterr().out


def test_tables_besides_are_shown_by_show(capsys: pytest.CaptureFixture[str]) -> None:
    show_summary(summary(*made_up_experiments.batches()))
    shown = capsys.readouterr().out
    assert "Fitted: steps(B) = S_min (1 + B_crit / B), to an accuracy of 0.85" in shown
    assert "B_crit" in shown
    described = description(epochs=({"train_accuracy": 0.8249, "seconds": 1.92},), study="a paper", repeats=1)
    show_summary(summary(described, [trial(described.benchmark, curve=curve(0.7, 0.8))]))
    shown = capsys.readouterr().out
    assert "epoch by epoch" in shown
    assert "0.8249" in shown
    assert "published: a paper" in shown


def test_the_command_that_asks_the_same_again() -> None:
    given = {"quick": True, "data": "digits", "repeats": 5, "target": 0.9, "layer": None, "hours": 1.0, "quiet": True, "json": False}
    assert command_of("batch", given) == "laminar experiment batch --quick --data digits --repeats 5 --target 0.9"
    assert command_of("layers", {"on": "spark://a b"}) == "laminar experiment layers --on 'spark://a b'"
