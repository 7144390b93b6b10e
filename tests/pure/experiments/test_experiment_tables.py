"""Tables on the screen: cells as wide as what they say."""

from __future__ import annotations

import pytest

from laminar.cli.experiment_ask import _cell
from laminar.cli.experiment_tables import relative
from laminar.experiments.statistics import summary
from tests.pure.experiments.made_up_trials import description, trial


@pytest.mark.parametrize(("seconds", "shown"), [(11.0, "110.0"), (220.9, "2209.0"), (1e31, "1.0e+32")])
def test_per_cent_of_a_figure_that_ran_away_is_short(seconds: float, shown: str) -> None:
    described = description()
    one, two, _ = described.variants
    trials = [trial(one.id, n, seconds=10.0) for n in range(2)] + [trial(two.id, n, seconds=seconds) for n in range(2)]
    text = relative(summary(described, trials).rows[1].figures["seconds"])
    assert text.startswith(f"{shown} [{shown}, {shown}]")


@pytest.mark.parametrize(("cell", "shown"), [(1, "1"), (2048, "2,048"), (1.0, "1.0000"), (None, "-"), ("strong", "strong")])
def test_what_is_counted_has_no_decimals(cell: float | str | None, shown: str) -> None:
    assert _cell(cell) == shown
