"""The critical path: an unbroken row of tasks from the beginning to the end, each waiting for the one before."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from laminar.plan.critical import by_kind, by_name, critical_path
from laminar.plan.simulate import simulate
from laminar.plan.tasks import Task
from laminar.testing.soap import Soap, inception


def test_through_what_was_waited_for() -> None:
    tasks = [
        Task((0,), 2.0, (0,), (), "forward", "a"),
        Task((1,), 1.0, (1,), (), "forward", "b"),
        Task((2,), 3.0, (0,), ((1,),), "forward", "c"),  # ready at 1; its core is free at 2
        Task((3,), 0.5, (7,), ((2,), (1,)), "transfer", "c to d"),
        Task((4,), 1.0, (1,), ((3,),), "backward", "a"),
        Task((5,), 5.0, (2,), (), "forward", "beside"),
    ]
    path = critical_path(simulate(tasks))
    assert [ran.task.key[0] for ran in path] == [0, 2, 3, 4]
    assert by_kind(path) == {"forward": 5.0, "backward": 1.0, "transfer": 0.5}
    assert list(by_kind(path)) == ["forward", "backward", "transfer"]  # most first
    assert by_name(path) == {"a": 3.0, "c": 3.0, "c to d": 0.5}


def test_of_several_the_one_with_the_smallest_key() -> None:
    tasks = [Task((i,), 1.0, (i,)) for i in (3, 1, 2)] + [Task((4,), 1.0, (1,), ((3,), (2,))), Task((5,), 1.0, (5,), ((3,),))]
    path = critical_path(simulate(tasks))
    assert [ran.task.key[0] for ran in path] == [2, 4]  # (1,) only held the core, and (5,) ends with (4,)


def test_a_collective_is_behind_the_last_holder_of_its_resources() -> None:
    tasks = [Task((0,), 1.0, (0,)), Task((1,), 4.0, (1,)), Task((2,), 2.0, (0, 1), ((0,),), "exchange")]
    assert [ran.task.key[0] for ran in critical_path(simulate(tasks))] == [1, 2]


def test_nothing_has_no_path() -> None:
    assert critical_path(simulate([])) == []


def test_tasks_without_time_do_not_lead_in_circles() -> None:
    tasks = [Task((i,), 0.0, (0,), ((i - 1,),) if i % 2 else ()) for i in range(6)]
    path = critical_path(simulate(tasks))
    assert len({ran.task.key for ran in path}) == len(path)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_unbroken_and_as_long_as_the_timeline(seed: int) -> None:
    soap, rng = Soap(inception(25), 4), Random(seed)
    timeline = simulate(soap.everything([soap.any_split(i, rng) for i in range(25)]))
    path = critical_path(timeline)
    assert path[0].begin == 0.0 and path[-1].end == timeline.seconds
    assert all(a.end == b.begin for a, b in itertools.pairwise(path))
    assert sum(by_kind(path).values()) == pytest.approx(timeline.seconds)
    assert sum(by_name(path).values()) == pytest.approx(timeline.seconds)
