"""How long agents are waited for."""

from __future__ import annotations

from laminar.launch.patience import AGAIN, BACK, RESTART, Patience


def over(patience: Patience, here: int, now: float, *, missing: int = 0, comes_back: bool = True, most: int | None = None) -> bool:
    return patience.is_over(here, missing, now, comes_back=comes_back, most=most)


def test_nobody_waits_for_those_that_are_here() -> None:
    assert over(Patience(2, 1, 3, 0.0), 2, 0.0)


def test_where_too_few_are_left_for_the_training_the_engine_gets_its_time() -> None:
    patience = Patience(3, 1, 3, 0.0)
    assert not over(patience, 0, AGAIN + 1) and not over(patience, 0, RESTART - 1)
    assert over(patience, 0, RESTART)


def test_of_a_stage_that_starts_late_not_only_the_first_agent_is_taken() -> None:
    patience = Patience(3, 1, 3, 0.0)
    assert not over(patience, 1, AGAIN + 10)
    assert not over(patience, 2, AGAIN + 11)
    assert over(patience, 3, AGAIN + 12)


def test_for_a_larger_team_it_waits_less() -> None:
    patience = Patience(3, 1, 3, 0.0)
    assert not over(patience, 2, 0.0) and not over(patience, 2, AGAIN - 1)
    assert over(patience, 2, AGAIN)


def test_nobody_waits_for_more_than_there_is_room_for() -> None:
    patience = Patience(3, 1, 3, 0.0)
    assert not over(patience, 1, 1.0, most=2)
    assert over(patience, 2, 2.0, most=2)
    assert not over(Patience(3, 3, 3, 0.0), 2, 2.0, most=2), "with fewer it cannot go on"


def test_where_the_engine_replaces_nobody_a_line_may_be_mended() -> None:
    patience = Patience(2, 1, 2, 0.0)
    assert not over(patience, 1, BACK - 1, comes_back=False)
    assert over(patience, 1, BACK - 1, missing=1, comes_back=False), "it is known why there is no other"
    assert over(patience, 1, BACK, comes_back=False)


def test_at_first_all_are_waited_for() -> None:
    patience = Patience(2, 1, 2, 0.0, starting=120.0)
    assert not over(patience, 1, 119.0) and not over(patience, 1, 119.0, comes_back=False)
    assert over(patience, 1, 1.0, missing=1, comes_back=False)
    assert over(patience, 1, 120.0)
