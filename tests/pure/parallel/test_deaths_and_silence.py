"""Who died too often, and who has been silent for too long."""

from __future__ import annotations

import signal

import pytest

from laminar.core.clock import FakeClock
from laminar.parallel.apart.deaths import MOST, WITHIN, Deaths
from laminar.parallel.apart.watch import Watch
from laminar.parallel.crew import Member


def test_a_process_may_die_now_and_then_for_ever() -> None:
    deaths = Deaths()
    assert all(deaths.add("worker 0", now) for now in range(0, 10_000, int(WITHIN / MOST) + 1))


def test_one_that_dies_again_and_again_is_given_up() -> None:
    deaths = Deaths()
    assert [deaths.add("worker 0", now) for now in range(MOST)] == [True] * (MOST - 1) + [False]
    assert deaths.add("worker 1", 0.0)
    assert deaths.add("worker 0", MOST + WITHIN + 1)  # a minute later it may try again


class Anybody(Member):
    """A process that does nothing."""

    name, code = "anybody", None

    def send(self, number: signal.Signals) -> None: ...

    def wait(self, timeout: float) -> bool:
        return True


@pytest.fixture
def members() -> list[Member]:
    return [Anybody("server", 0), Anybody("worker", 0), Anybody("worker", 1)]


def test_a_silent_server_is_found_once(members: list[Member]) -> None:
    clock = FakeClock()
    watch = Watch(5.0, clock.monotonic)
    server = members[0]
    watch.started(server)
    for _ in range(4):
        clock.advance(4.0)
        assert watch.silent([server], clock.monotonic()) == []
        watch.heard(server)
    clock.advance(6.0)
    assert watch.silent([server], clock.monotonic()) == [(server, "said nothing for 5 s")]
    assert watch.silent([server], clock.monotonic()) == []
    watch.ended(server)


def test_a_worker_has_as_long_as_the_first_one_took_and_the_timeout(members: list[Member]) -> None:
    clock = FakeClock()
    watch = Watch(5.0, clock.monotonic)
    _, first, second = members
    watch.started(first), watch.started(second)
    clock.advance(100.0)  # data may be large
    assert not watch.first_hello and watch.silent(members, clock.monotonic()) == []
    watch.said_hello(first)
    assert watch.first_hello
    clock.advance(4.0)
    assert watch.silent(members, clock.monotonic()) == []
    clock.advance(2.0)
    assert watch.silent(members, clock.monotonic()) == [(second, "was not ready after 105 s")]
