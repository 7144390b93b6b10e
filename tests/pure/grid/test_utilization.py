"""Where the time of nodes goes: what a node counts, and what of it the server takes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.core.clock import FakeClock
from laminar.grid.utilization import PARTS, SLACK, Part, Times, Timesheet, plausible
from laminar.grid.wire.messages import Spent

TOLD = [part for part in Part if part is not Part.WASTED]
EVENTS = st.one_of(
    st.tuples(st.just("at"), st.sampled_from(TOLD)),
    st.tuples(st.just("on"), st.integers(0, 3)),
    st.tuples(st.just("rests"), st.booleans()),
    st.tuples(st.just("report"), st.booleans()),  # and whether it is heard
)


def sheet_of(clock: FakeClock) -> Timesheet:
    numbers = itertools.count(1)
    return Timesheet(clock.monotonic(), lambda: next(numbers))


def as_dict(one: Spent) -> dict[str, float]:
    return {part.value: getattr(one, part.value) for part in TOLD if getattr(one, part.value)}


def test_time_is_of_one_part_and_of_one_result() -> None:
    clock = FakeClock(0.0)
    sheet = sheet_of(clock)
    clock.advance(2)
    sheet.on(7, clock.monotonic())
    sheet.at(Part.TRANSFER, clock.monotonic())
    clock.advance(1)
    sheet.at(Part.COMPUTING, clock.monotonic())
    clock.advance(4)
    sheet.rests(True, clock.monotonic())
    clock.advance(8)
    sheet.rests(False, clock.monotonic())
    clock.advance(3)
    sheet.was(Part.COMPUTING, Part.TRANSFER, 0.5)
    report = sheet.report(clock.monotonic())
    assert {one.result: as_dict(one) for one in report.spent} == {
        0: {"waiting": 2.0},
        7: {"transfer": 1.5, "computing": 6.5, "paused": 8.0},
    }


def test_a_report_that_was_not_heard_is_sent_again_and_nothing_of_it_twice() -> None:
    clock = FakeClock(0.0)
    sheet = sheet_of(clock)
    clock.advance(5)
    first = sheet.report(clock.monotonic())
    clock.advance(2)
    assert sheet.report(clock.monotonic()) == first
    sheet.heard()
    second = sheet.report(clock.monotonic())
    assert second.number != first.number and second.spent[0].waiting == 2.0


def test_what_came_out_afterwards_is_no_more_than_was_counted() -> None:
    clock = FakeClock(0.0)
    sheet = sheet_of(clock)
    sheet.at(Part.TRANSFER, clock.monotonic())
    clock.advance(3)
    sheet.at(Part.WAITING, clock.monotonic())
    sheet.was(Part.TRANSFER, Part.WAITING, 100.0)
    sheet.was(Part.PAUSED, Part.WAITING, 1.0)
    (one,) = sheet.report(clock.monotonic()).spent
    assert as_dict(one) == {"waiting": 3.0}


@given(st.lists(st.tuples(st.integers(0, 1000), EVENTS), max_size=60))
def test_whatever_happens_the_parts_are_all_of_the_time(events: list[tuple[int, tuple[str, Any]]]) -> None:
    clock = FakeClock(0.0)
    sheet, known = sheet_of(clock), 0.0

    def hear() -> float:
        report = sheet.report(clock.monotonic())
        sheet.heard()
        return sum(one.total for one in report.spent)

    for seconds, (kind, value) in events:
        clock.advance(float(seconds))
        if kind != "report":
            getattr(sheet, kind)(value, clock.monotonic())
        elif value:
            known += hear()
        else:
            sheet.report(clock.monotonic())  # it gets lost
    known += hear() + hear()  # one that got lost, and what came after it
    assert known == pytest.approx(sum(seconds for seconds, _ in events))


@given(st.lists(st.floats(0, 1e9), min_size=5, max_size=5))
def test_shares_add_up_to_one(values: list[float]) -> None:
    times = Times(*values)
    total = sum(times.shares.values())
    assert total == pytest.approx(1.0) if times.total > 1e-3 else total in (0.0, pytest.approx(1.0))
    assert times.told()["seconds"] == times.total and set(times.told()) == {"seconds", *(part.value for part in PARTS)}


def test_a_rounding_error_of_what_was_wasted_is_no_negative_share() -> None:
    assert Times(computing=-1e-12, wasted=2.0).shares == {"computing": 0.0, "transfer": 0.0, "waiting": 0.0, "paused": 0.0, "wasted": 1.0}


@pytest.mark.parametrize(("known", "claims", "good"), [(0.0, 100.0, True), (50.0, 60.0 + SLACK, False), (1e9, 0.0, False)])
def test_nobody_can_have_spent_more_time_than_there_was(known: float, claims: float, good: bool) -> None:
    assert plausible([Spent(computing=claims / 2), Spent(waiting=claims / 2)], known, since=1000.0, now=1100.0) is good
