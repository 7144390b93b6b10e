"""The simulator: tasks begin when what they come after is done and their resources are free, in one order that can be told beforehand."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.plan.simulate import simulate
from laminar.plan.tasks import Key, Task
from laminar.testing.soap import Soap, inception

CORE, OTHER, LINK = 0, 1, 7


def times(tasks: Sequence[Task]) -> dict[Key, tuple[float, float]]:
    return {ran.task.key: (ran.begin, ran.end) for ran in simulate(tasks).ran}


def test_nothing_takes_no_time() -> None:
    assert simulate([]).seconds == 0.0
    assert simulate([]).ran == []


def test_a_task_waits_for_what_it_comes_after_and_for_its_resource() -> None:
    tasks = [
        Task((0, 0), 2.0, (CORE,)),
        Task((1, 0), 3.0, (CORE,)),  # the same core
        Task((2, 0), 1.0, (LINK,), ((0, 0),)),
        Task((3, 0), 1.5, (OTHER,), ((2, 0),)),
        Task((4, 0), 0.5, (CORE,), ((3, 0), (1, 0))),  # after both
    ]
    timeline = simulate(tasks)
    found = {ran.task.key[0]: (ran.ready, ran.begin, ran.end) for ran in timeline.ran}
    assert found == {0: (0, 0, 2), 1: (0, 2, 5), 2: (2, 2, 3), 3: (3, 3, 4.5), 4: (5, 5, 5.5)}
    assert timeline.seconds == 5.5
    assert [timeline.busy(resource) for resource in (CORE, OTHER, LINK, 99)] == [5.5, 1.5, 1.0, 0.0]
    assert timeline[3, 0].task is tasks[3]
    assert (3, 0) in timeline and (3, 1) not in timeline and len(timeline) == 5


def test_who_was_ready_first_is_first_and_then_who_has_the_smaller_key() -> None:
    tasks = [
        Task((9,), 1.0, (OTHER,)),
        Task((0,), 1.0, (CORE,), ((9,),)),  # ready at 1
        Task((8,), 2.0, (CORE,)),  # ready at 0
        Task((5, 1), 1.0, (CORE,), ((9,),)),
        Task((5,), 1.0, (CORE,), ((9,),)),  # shorter, so smaller
    ]
    assert [ran.task.key for ran in simulate(tasks).ran] == [(8,), (9,), (0,), (5,), (5, 1)]
    assert times(tasks) == {(8,): (0, 2), (9,): (0, 1), (0,): (2, 3), (5,): (3, 4), (5, 1): (4, 5)}
    assert times(tasks[::-1]) == times(tasks)


def test_a_collective_begins_with_the_last_of_its_members_and_holds_all() -> None:
    tasks = [
        Task((0,), 1.0, (CORE,)),
        Task((1,), 4.0, (OTHER,)),
        Task((2,), 2.0, (CORE, OTHER, LINK), ((0,),), "exchange"),  # ready at 1, but the other computes
        Task((3,), 1.0, (CORE,), ((0,),)),  # ready at the same time, and taken later
    ]
    assert times(tasks) == {(0,): (0, 1), (1,): (0, 4), (2,): (4, 6), (3,): (6, 7)}


def test_without_resources_only_what_it_comes_after_counts() -> None:
    tasks = [Task((i,), 1.0, (), (), "wait") for i in range(3)] + [Task((3,), 1.0, (), ((0,), (1,), (2,)))]
    assert simulate(tasks).seconds == 2.0


def test_a_task_that_takes_no_time_lets_smaller_keys_pass() -> None:
    """(2,) is ready at 0 as soon as (1,) is taken, and before (3,), which has waited since the beginning."""
    tasks = [Task((1,), 0.0, ()), Task((3,), 1.0, (CORE,)), Task((2,), 1.0, (CORE,), ((1,),)), Task((0,), 1.0, (CORE,), ((3,),))]
    assert [ran.task.key[0] for ran in simulate(tasks).ran] == [1, 2, 3, 0]
    assert times(tasks)[3,] == (1.0, 2.0)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([Task((0, 1), 1.0, (), ((0, 2),)), Task((0, 2), 1.0, (), ((0, 1),))], r"2 tasks wait for each other.*\(0, 1\), \(0, 2\)"),
        ([Task((4,), 1.0, (), ((4,),)), Task((5,), 1.0, (), ((4,),)), Task((6,), 1.0, ())], r"2 tasks .*\(4,\), \(5,\)$"),
        ([Task((i,), 1.0, (), ((i,),)) for i in range(7)], r"7 tasks .*\(4,\) …"),
        ([Task((0,), 1.0, (), ((1,), (2,))), Task((2,), 1.0, ())], r"\(0,\) comes after \(1,\), which is not there"),
        ([Task((0, 3), 1.0, ()), Task((0, 3), 2.0, ())], r"same key: \(0, 3\)"),
        ([Task((0,), -1.0, ())], r"\(0,\) takes -1.0 seconds"),
        ([Task((0,), float("nan"), ())], "takes nan seconds"),
        ([Task((0,), float("inf"), ())], "takes inf seconds"),
    ],
)
def test_what_cannot_be_run_is_an_error_with_its_keys(tasks: list[Task], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        simulate(tasks)


def plainly(tasks: Sequence[Task]) -> list[tuple[Key, float, float, float]]:
    """As the docstring of simulate.py says it, with no thought of speed."""
    left = {task.key: list(task.after) for task in tasks}
    by_key = {task.key: task for task in tasks}
    ready, free, found = dict.fromkeys(by_key, 0.0), dict[int, float](), []
    heap = [(0.0, key) for key in by_key if not left[key]]
    heapq.heapify(heap)
    while heap:
        now, key = heapq.heappop(heap)
        task = by_key[key]
        begin = max([now, *[free.get(resource, 0.0) for resource in task.resources]])
        end = begin + task.seconds
        free |= dict.fromkeys(task.resources, end)
        found.append((key, now, begin, end))
        for other in tasks:
            if key in other.after:
                ready[other.key] = max(ready[other.key], end)
                left[other.key] = [before for before in left[other.key] if before != key]
                if not left[other.key]:
                    heapq.heappush(heap, (ready[other.key], other.key))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    """Few different times and resources, so that ties are common; times that vanish beside others, too."""
    keys: list[Key] = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), unique=True, max_size=12))
    seconds = st.sampled_from([0.0, 0.1, 0.2, 0.30000000000000004, 1.0, 1e-18])
    return [
        Task(
            key,
            draw(seconds),
            tuple(draw(st.lists(st.integers(0, 3), unique=True, max_size=3))),
            tuple(draw(st.lists(st.sampled_from(keys[:i]), max_size=4))) if i else (),
        )
        for i, key in enumerate(keys)
    ]


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_it_is_what_the_rule_says(tasks: list[Task]) -> None:
    found = simulate(tasks)
    assert [(ran.task.key, ran.ready, ran.begin, ran.end) for ran in found.ran] == plainly(tasks)
    assert found.seconds == max([ran.end for ran in found.ran], default=0.0)


def test_a_network_over_rows_is_about_as_much_faster_as_it_has_devices() -> None:
    graph = inception(30)
    alone, eight = (simulate(soap.everything(soap.over_rows())) for soap in (Soap(graph, 1), Soap(graph, 8)))
    assert 3 < alone.seconds / eight.seconds < 8
    assert alone.seconds == pytest.approx(alone.busy(0))  # one device is never idle
    assert all(eight.busy(0) == eight.busy(device) for device in range(8))  # all do the same
