"""Which share of the time a node may work, over days and reboots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.core.clock import FakeClock
from laminar.grid.node.habits import HALF, Habits, Kept, read, write

HOUR, DAY = 3600.0, 86400.0


def live(habits: Habits, clock: FakeClock, seconds: float, *, resting: bool) -> None:
    for _ in range(int(seconds // 60)):
        clock.advance(60.0)
        habits.spent(60.0, resting=resting, now=clock.now())


def test_a_node_of_which_nothing_is_known_may_work() -> None:
    habits = Habits(Kept(), cpu=1.0)
    assert habits.available == 1.0
    habits.spent(0.5, resting=True, now=1.0)
    assert habits.available == 0.5  # half a second says little


def test_a_day_of_rest_and_work_is_known_after_a_reboot(tmp_path: Path) -> None:
    habits, clock = Habits(Kept(), cpu=0.5), FakeClock(1e9)
    live(habits, clock, 6 * HOUR, resting=True)
    live(habits, clock, 2 * HOUR, resting=False)
    habits.measured(100.0)
    habits.measured(200.0)
    write(tmp_path / "habits.json", habits.kept())
    clock.advance(16 * HOUR)  # the machine is off, which is neither
    again = Habits(read(tmp_path / "habits.json"), cpu=0.5)
    assert again.available == pytest.approx(0.25, abs=0.02) and again.speed == pytest.approx(130.0)
    live(again, clock, HOUR, resting=False)
    assert 0.25 < again.available < 0.45
    assert Habits(read(tmp_path / "habits.json"), cpu=1.0).speed == 0.0  # with more processors it is another


def test_old_days_fade() -> None:
    habits, clock = Habits(Kept(), cpu=1.0), FakeClock(1e9)
    live(habits, clock, 30 * DAY, resting=True)
    assert habits.available == pytest.approx(0.0)
    live(habits, clock, HALF, resting=False)
    assert habits.available == pytest.approx(0.5, abs=0.01)
    live(habits, clock, 4 * HALF, resting=False)
    assert habits.available > 0.95


@pytest.mark.parametrize("text", [b"", b"garbage", b"[]", b'{"worked":"much"}', b"\xff"])
def test_what_is_damaged_is_not_known(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "habits.json").write_bytes(text)
    assert read(tmp_path / "habits.json") == Kept() == read(tmp_path / "none")


@given(st.lists(st.tuples(st.floats(0, 1e6), st.booleans(), st.floats(0, 1e10))))
def test_it_is_a_share_whatever_the_clock_does(some: list[tuple[float, bool, float]]) -> None:
    habits = Habits(Kept(worked=-1.0, at=-5.0, speed=-1.0), cpu=1.0)
    for seconds, resting, now in some:
        habits.spent(seconds, resting=resting, now=now)
        assert 0.0 <= habits.available <= 1.0 and habits.kept().worked >= 0.0 <= habits.kept().rested
