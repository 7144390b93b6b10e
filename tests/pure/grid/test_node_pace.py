"""The share of the time that a node works: measured by the work of a task, not by the wait before it."""

from __future__ import annotations

import os

import pytest

from laminar.core.clock import FakeClock
from laminar.grid.node.child import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock(100.0)
    monkeypatch.setattr("laminar.grid.node.child.time.monotonic", made.monotonic)
    monkeypatch.setattr("laminar.grid.node.child.time.sleep", made.advance)
    return made


def test_a_step_is_followed_by_the_rest_of_its_share(clock: FakeClock) -> None:
    pace = Pace(0.25)
    pace.begin()
    for step in range(1, 4):
        clock.advance(1.0)
        pace.pause()
        assert clock.monotonic() == 100.0 + 4 * step


def test_the_wait_for_a_task_was_no_work(clock: FakeClock) -> None:
    pace = Pace(0.08)
    clock.advance(10.0)  # for a round to close
    pace.begin()
    pace.pause()  # before the first step
    assert clock.monotonic() == 110.0
    clock.advance(0.08)
    pace.pause()
    assert clock.monotonic() == pytest.approx(111.0)
    assert os.getppid() == pace._parent
