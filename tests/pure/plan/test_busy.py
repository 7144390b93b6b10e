"""Whether a machine is free enough to be measured is decided by readings alone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from laminar.core.errors import LaminarError
from laminar.plan.profile.busy import LIMIT, SECONDS, Process, Quiet, Reading, compare, read_now, refusal

ME = os.getpid()


def reading(at: float, used: float | None, own: float = 0.0, load: float = 0.0, **seconds: float) -> Reading:
    """`seconds` of processes by name; 'child' is ours, and what has 'of_child' in its name is the child's."""
    processes = {ME: Process("python", 1, own, own)}
    for number, (name, spent) in enumerate(seconds.items(), 100_000_000):
        parent = ME if name == "child" else 100_000_000 if "of_child" in name else 1
        processes[number] = Process(name, parent, spent, spent)
    return Reading(at, used, own, processes, load)


def test_what_we_do_ourselves_does_not_count() -> None:
    assert compare(reading(0, 10, own=3), reading(1, 11.05, own=4), ME).share == pytest.approx(0.05)


def test_a_busy_process_is_named_with_its_share() -> None:
    busy = compare(reading(0, 10, make=50.0, idle=7.0), reading(2, 12.0, make=51.9, idle=7.0), ME)
    assert busy.share == pytest.approx(1.0)
    assert busy.who == ("make (process 100000000, 95 %)",)
    error = refusal(busy)
    assert error is not None and error.code == "L609" and error.exit_code == 6
    assert "take 100 % of a core" in error.message and "make (process 100000000, 95 %)" in error.message
    assert "--even-if-busy" in error.hint


def test_children_are_ours_and_theirs_too() -> None:
    before = reading(0, 10, child=0.0, of_child=0.0, other=1.0)
    assert compare(before, reading(1, 11, child=0.5, of_child=0.5, other=1.5), ME).who == ("other (process 100000002, 50 %)",)


def test_who_cannot_be_seen_is_busy_all_the_same() -> None:
    error = refusal(compare(reading(0, 10), reading(1, 10.5), ME))
    assert error is not None and "cannot be seen" in error.message


def test_the_limit_is_a_share_of_one_core() -> None:
    assert refusal(compare(reading(0, 10), reading(1, 10 + LIMIT - 0.01), ME)) is None
    assert refusal(compare(reading(0, 10), reading(1, 10 + LIMIT + 0.01), ME)) is not None


def test_a_system_that_tells_no_times_has_a_load_average() -> None:
    assert refusal(compare(reading(0, None, own=0), reading(1, None, own=1, load=1.1), ME)) is None
    assert refusal(compare(reading(0, None, own=0), reading(1, None, own=1, load=2.0), ME)) is not None


class Clock:
    """Readings of a machine on which others are busy at some times."""

    def __init__(self, *busy: tuple[float, float]) -> None:
        self.now, self.used, self._busy = 0.0, 0.0, busy

    def read(self) -> Reading:
        return reading(self.now, self.used)

    def sleep(self, seconds: float) -> None:
        begin, self.now = self.now, self.now + seconds
        self.used += sum(max(0.0, min(self.now, b) - max(begin, a)) for a, b in self._busy)


def quiet(clock: Clock, **options: bool) -> Quiet:
    return Quiet(read=clock.read, sleep=clock.sleep, **options)


def test_it_waits_for_a_moment_of_quiet() -> None:
    clock = Clock((0.0, 2.0))
    assert quiet(clock).wait()
    assert 2.0 <= clock.now <= 2.0 + 3 * SECONDS


def test_it_does_not_wait_for_ever() -> None:
    clock = Clock((0.0, 1e9))
    with pytest.raises(LaminarError, match="too busy") as caught:
        quiet(clock).wait()
    assert caught.value.code == "L609"
    assert 5.0 <= clock.now <= 6.0


def test_what_was_disturbed_is_measured_again() -> None:
    clock = Clock((1.0, 2.0))
    turns: Iterator[int] = iter(range(9))

    def measure() -> int:
        clock.sleep(1.0)
        return next(turns)

    assert quiet(clock).during(measure) == (1, True)


def test_what_is_always_disturbed_is_refused_or_marked() -> None:
    clock = Clock((0.4, 1.2), (2.0, 3.0), (3.6, 4.4))
    with pytest.raises(LaminarError, match="too busy"):
        quiet(clock).during(lambda: clock.sleep(1.0))
    clock = Clock((0.0, 1e9))
    assert quiet(clock, even_if_busy=True).during(lambda: clock.sleep(1.0)) == (None, False)


def test_work_that_cannot_wait_is_done_once_and_marked() -> None:
    for busy, calm in (((0.0, 1e9), False), ((5.0, 6.0), True)):
        clock, turns = Clock(busy), list[int]()

        def work(clock: Clock = clock, turns: list[int] = turns) -> None:
            clock.sleep(1.0)
            turns.append(1)

        assert quiet(clock).beside(work) == (None, calm)
        assert (turns, clock.now) == ([1], 1.0)


def test_it_does_not_look_again_at_once() -> None:
    clock = Clock()
    made = quiet(clock)
    made.during(lambda: clock.sleep(1.0))
    before = clock.now
    made.during(lambda: clock.sleep(1.0))
    assert clock.now - before == pytest.approx(1.0)


def test_this_machine_can_be_read() -> None:
    first = read_now()
    while (second := read_now()).at <= first.at:
        pass
    assert second.own >= first.own >= 0
    assert compare(first, second, ME).share >= 0


def test_nor_where_somebody_is_busy_and_that_is_no_matter() -> None:
    clock = Clock((0.0, 1e9))
    made = quiet(clock, even_if_busy=True)
    assert made.during(lambda: clock.sleep(1.0)) == (None, False)
    before = clock.now
    assert made.during(lambda: clock.sleep(1.0)) == (None, False)
    assert clock.now - before == pytest.approx(1.0)
