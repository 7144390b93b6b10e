"""Which way a kernel runs, by measured times: pure decisions, with times that are made up."""

from __future__ import annotations

import pytest

from laminar.kernels.operator.decide import Decider, Way, alike

WAYS: tuple[Way, ...] = ("lanes", "scalar", "circuit")


def ran(decider: Decider, seconds: dict[Way, float], calls: int) -> list[Way]:
    """Ways of the next calls, if each takes so long."""
    made: list[Way] = []
    for _ in range(calls):
        made.append(decider.way)
        decider.took(decider.way, seconds[decider.way])
    return made


@pytest.mark.parametrize("fastest", WAYS)
def test_the_fastest_way_is_chosen_after_two_calls_of_each(fastest: Way) -> None:
    seconds = {way: 0.010 if way == fastest else 0.011 for way in WAYS}
    decider = Decider(WAYS)
    first = ran(decider, seconds, 8)
    assert first == ["lanes", "lanes", "scalar", "scalar", "scalar", "circuit", "circuit", "circuit"], "others compile in a first call"
    assert decider.decided and ran(decider, seconds, 20) == [fastest] * 20


def test_short_calls_try_nothing_else() -> None:
    decider = Decider(WAYS)
    assert ran(decider, dict.fromkeys(WAYS, 0.0019), 50) == ["lanes"] * 50


def test_one_slow_call_among_short_ones_tries_nothing_else() -> None:
    decider = Decider(WAYS)
    decider.took("lanes", 0.008)
    assert ran(decider, dict.fromkeys(WAYS, 0.0005), 50) == ["lanes"] * 50
    decider.took("lanes", 0.020)
    assert ran(decider, dict.fromkeys(WAYS, 0.0005), 50) == ["lanes"] * 50


def test_a_way_that_is_clearly_slower_has_no_second_call_that_counts() -> None:
    decider = Decider(WAYS)
    made = ran(decider, {"lanes": 0.010, "scalar": 0.030, "circuit": 0.006}, 9)
    assert made.count("scalar") == 2 and made[-1] == "circuit"


@pytest.mark.parametrize("times", [4.5, 1 / 4.5, 1e4])
def test_calls_that_take_four_times_longer_or_shorter_are_measured_again(times: float) -> None:
    decider = Decider(("scalar", "circuit"))
    ran(decider, {"scalar": 0.100, "circuit": 0.060}, 6)
    assert decider.way == "circuit"
    now: dict[Way, float] = {"scalar": 0.060 * times * 0.5, "circuit": 0.060 * times}
    made = ran(decider, now, 10)
    assert made[:2] == ["circuit", "circuit"], "one call may have waited for a core"
    assert decider.way == "scalar" and "circuit" in made[2:]


def test_a_first_call_with_few_rounds_does_not_decide_for_many() -> None:
    decider = Decider(("scalar", "circuit"))
    ran(decider, {"scalar": 1e-6, "circuit": 1e-3}, 5)
    assert decider.way == "scalar"
    assert ran(decider, {"scalar": 0.030, "circuit": 0.021}, 20)[-1] == "circuit"


def test_calls_within_four_times_are_not_measured_again() -> None:
    decider = Decider(("scalar", "circuit"))
    ran(decider, {"scalar": 0.100, "circuit": 0.060}, 6)
    assert ran(decider, {"scalar": 0.010, "circuit": 0.200}, 9) == ["circuit"] * 9


def test_calls_look_alike_within_a_magnitude_of_their_whole_numbers() -> None:
    assert alike(1, (10, 5), 2) == alike(1, (9, 4), 2)
    assert alike(1, (10,), 2) != alike(1, (1_000_000,), 2)
    assert alike(1, (10,), 2) != alike(2, (10,), 2) != alike(2, (10,), 1)
    assert alike(1, (-10,), 2) != alike(1, (10,), 2)
