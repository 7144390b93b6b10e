"""Memory along the timeline: taken at the beginning of a task, given back at its end."""

from __future__ import annotations

from laminar.plan.memory import curve, peaks
from laminar.plan.simulate import simulate
from laminar.plan.tasks import Task
from laminar.testing.soap import Soap, inception


def micro_batches(count: int, *, forward_first: bool) -> list[Task]:
    """Forward takes 10 bytes that backward gives back: all forward first, or each backward before the next forward."""
    found = []
    for i in range(count):
        before = ((1, i - 1),) if i and not forward_first else ()
        found.append(Task((0, i), 1.0, (0,), before, "forward", takes=((5, 10),)))
        last = count - 1 if forward_first else i
        found.append(Task((1, i), 1.0, (0,), ((0, i), (0, last)), "backward", gives=((5, 10),)))
    return found


def test_the_most_is_what_is_held_at_the_same_time() -> None:
    assert peaks(simulate(micro_batches(4, forward_first=True)), {5: 100}) == {5: 140}
    assert peaks(simulate(micro_batches(4, forward_first=False)), {5: 100}) == {5: 110}


def test_every_worker_is_told_even_if_it_does_nothing() -> None:
    timeline = simulate([Task((0,), 1.0, (0,), takes=((3, 7), (1, 2)), gives=((3, 7),))])
    assert peaks(timeline, {0: 50, 1: 60}) == {0: 50, 1: 62, 3: 7}
    assert peaks(simulate([]), {}) == {}


def test_a_curve_steps_at_beginnings_and_ends() -> None:
    first = Task((0,), 1.0, (0,), takes=((0, 10), (1, 99)))
    second = Task((1,), 2.0, (0,), ((0,),), takes=((0, 5),), gives=((0, 15),))
    timeline = simulate([first, second])
    assert curve(timeline, 0, standing=1) == [(0.0, 1), (0.0, 11), (1.0, 16), (3.0, 1)]
    assert curve(timeline, 1) == [(0.0, 0), (0.0, 99)]
    assert curve(timeline, 2) == [(0.0, 0)]


def test_what_ends_makes_room_for_what_begins_then() -> None:
    one = Task((0,), 1.0, (0,), takes=((0, 10),), gives=((0, 10),))
    assert peaks(simulate([one, one._replace(key=(1,))]), {}) == {0: 10}  # one after the other, on one core


def test_what_takes_no_time_takes_memory_all_the_same() -> None:
    timeline = simulate([Task((0,), 0.0, (), takes=((0, 10),), gives=((0, 10),))])
    assert peaks(timeline, {0: 1}) == {0: 11}


def test_a_step_gives_back_what_it_took() -> None:
    soap = Soap(inception(20), 4)
    timeline = simulate(soap.everything(soap.over_rows()))
    most = peaks(timeline, dict.fromkeys(range(4), 1000))
    for worker in range(4):
        points = curve(timeline, worker, 1000)
        assert points[-1][1] == 1000
        assert max(size for _, size in points) == most[worker] > 1000
        assert [seconds for seconds, _ in points] == sorted(seconds for seconds, _ in points)
