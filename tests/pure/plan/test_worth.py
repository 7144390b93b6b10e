"""How long choosing may take: in proportion to training, and what there is no time for."""

from __future__ import annotations

import pytest

from laminar.plan.choose import ROUNDS
from laminar.plan.worth import BEGIN, LEAST, LINKS, LONGER, MOST, SHARE, Allowed, planning, trials


@pytest.mark.parametrize("training", [3.1, 5.0, 60.0, 600.0, 3600.0, 1e6])
def test_planning_is_a_small_part_of_training(training: float) -> None:
    found = planning(training, links=False).seconds
    assert LEAST <= found <= max(LEAST, SHARE * training) and found <= MOST


def test_nothing_is_planned_where_workers_would_not_have_begun_before_one_process_is_done() -> None:
    assert planning(BEGIN, links=False).seconds == 0.0 < planning(BEGIN + 0.1, links=False).seconds


def test_links_are_measured_by_a_training_that_is_long_enough() -> None:
    assert planning(5.0, links=True).seconds == 0.0
    long = planning(2 * LONGER * LINKS, links=True)
    assert long.seconds == SHARE * 2 * LONGER * LINKS + LINKS, "they are measured once, so they are not of the time for this one's plans"


def test_trials_take_a_small_part_of_training_and_two_plans_are_tried_before_three() -> None:
    costs = [6.0, 7.0, 3.0]
    assert trials(50.0, costs) == (0, 0)
    assert trials(140.0, costs) == (2, 1)
    assert trials(170.0, costs) == (3, 1)
    assert trials(1e5, costs) == (3, ROUNDS)
    assert trials(1e5, costs[:1]) == (0, 0), "one alone need not be tried"
    for training in range(1, 2000, 7):
        count, rounds = trials(training, costs)
        assert rounds * sum(costs[:count]) <= SHARE * training


def test_what_is_said_of_it() -> None:
    assert planning(42.0, links=False).spent(1.23) == "planned for 1.2 s, with 4.2 s to spend since one process would train for about 42 s"
    assert Allowed(None, 90.0).spent(61.0) == "planned for 61.0 s, with 90 s to spend as asked for"
    assert planning(5.0, links=False).too_short == "no plan was priced in 1.0 s, and one process would train for about 5.0 s"
    assert planning(0.5, links=False).too_short == "one process would train for about 0.5 s, and workers take about 3 s to begin"
    assert planning(0.03, links=False).too_short.startswith("one process would train for about 30 ms")
    assert planning(5.0, links=True).too_short.startswith("one process would train for about 5.0 s, too short to measure how processes")
    assert "about 3.0 h" in planning(10_800.0, links=False).spent(300.0)
