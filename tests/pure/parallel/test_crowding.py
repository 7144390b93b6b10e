"""When members take the rows of others: paces are made up, so that what is decided can be held against what is best."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.sync.crowding import FIRST, LATER, MOST, SELDOM, SLOW, SOON, TRIAL, WAITING, Crowding, Stretch

Pace = Callable[[float, int], float]  # at a time, for a group: seconds of a step


def run(size: int, seconds: float, pace: Pace, waited: Callable[[float, int], float], *, allowed: bool = True) -> list[tuple[float, int]]:
    """When which group was decided upon."""
    crowding, now, found = Crowding(size), 0.0, []
    stretch = Stretch(1, FIRST)
    while now < seconds:
        took = pace(now, stretch.group)
        now += stretch.steps * took
        stretch = crowding.next(now, took, waited(now, stretch.group), allowed=allowed)
        assert 1 <= stretch.group <= size
        assert 1 <= stretch.steps <= MOST
        found.append((now, stretch.group))
    return found


def crowded(_: float, group: int) -> float:
    return 0.0026 if group == 1 else 0.0015


def waits(_: float, group: int) -> float:
    return 0.5 if group == 1 else 0.0


def test_nothing_is_tried_while_members_hardly_wait() -> None:
    assert {group for _, group in run(4, 60, crowded, lambda *_: WAITING - 0.01)} == {1}


def test_a_larger_group_is_kept_where_its_steps_are_shorter() -> None:
    found = run(2, 30, crowded, waits)
    assert next(now for now, group in found if group == 2) < 0.2
    assert sum(group == 2 for _, group in found) > 0.9 * len(found)


def test_all_compute_again_soon_after_the_other_program_has_ended() -> None:
    def pace(now: float, group: int) -> float:
        return crowded(now, group) if now < 20 else 0.0008 * group

    found = run(2, 60, pace, lambda now, group: waits(now, group) if now < 20 else 0.02)
    assert {group for now, group in found if now > 20 + LATER + 1} == {1}
    assert 2 in {group for now, group in found if 19 < now < 20}


def test_a_group_that_is_slower_is_tried_seldom() -> None:
    def pace(_: float, group: int) -> float:
        return 0.001 * group

    found = run(2, 300, pace, waits)
    tried = [now for (now, group), (_, before) in zip(found[1:], found, strict=False) if group == 2 and before == 1]
    gaps = [later - sooner for sooner, later in itertools.pairwise(tried)]
    assert SOON < gaps[0] < 2
    assert SELDOM < gaps[-1] < SELDOM + 2
    assert sum(group == 2 for _, group in found) < 0.01 * len(found) + TRIAL * len(tried)


def test_all_compute_again_also_where_some_of_those_that_compute_have_fewer_rows() -> None:
    """Of three, one takes the rows of two, and the third waits for it half of its time, whatever else runs."""

    def pace(now: float, group: int) -> float:
        return {1: 0.0026, 2: 0.0015, 3: 0.002}[group] if now < 10 else 0.0008 * group

    def waited(now: float, group: int) -> float:
        return 0.5 if group == 2 or (now < 10 and group == 1) else 0.02

    found = run(3, 60, pace, waited)
    assert sum(group == 2 for now, group in found if now < 10) > 0.6 * sum(now < 10 for now, _ in found)
    assert {group for now, group in found if now > 10 + 2 * LATER + 1} == {1}


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.1, 0.2, 2.0, 20.0])
def test_trials_of_what_is_slower_take_little_time_however_slow_a_step_is(seconds: float) -> None:
    """Members of different speed wait for each other whatever else runs."""
    found = run(2, 1000 * seconds + 60, lambda _, group: seconds * group, lambda _, group: 0.3 if group == 1 else 0.0)
    starts = [0.0, *(now for now, _ in found)]
    spent = sum(end - start for (start, end), (_, group) in zip(itertools.pairwise(starts), [(0.0, 1), *found], strict=False) if group > 1)
    assert spent / 2 < 0.05 * starts[-1]  # half of it steps were made
    assert (spent > 0) == (seconds <= SLOW)


def test_members_that_have_something_to_themselves_are_left_alone() -> None:
    assert {group for _, group in run(3, 10, crowded, waits, allowed=False)} == {1}


def test_who_stands_in_stops_at_once_when_it_may_no_longer() -> None:
    crowding = Crowding(2)
    now = 0.0
    for _ in range(50):
        now += 1
        group = crowding.next(now, crowded(now, 2), 0.5, allowed=True).group
        if group == 2:
            break
    assert group == 2
    assert crowding.next(now + 1, 0.001, 0.5, allowed=False).group == 1


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(2, 9),
    paces=st.lists(st.floats(1e-4, 0.5), min_size=9, max_size=9),
    gone=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_whatever_is_measured_it_settles_on_no_group_that_is_slower_than_all_computing(
    size: int, paces: list[float], gone: list[bool]
) -> None:
    crowding, now, calls = Crowding(size), 0.0, 0
    groups: list[int] = []
    stretch = Stretch(1, FIRST)
    for calls in range(400):
        unknown = gone[calls % len(gone)] and calls % 3 == 0  # something came between: nothing is known of that stretch
        now += paces[stretch.group - 1] * stretch.steps
        stretch = crowding.next(now, None if unknown else paces[stretch.group - 1], 0.9, allowed=True)
        groups.append(stretch.group)
    settled = max(set(groups[200:]), key=groups[200:].count)
    assert paces[settled - 1] <= paces[0]
