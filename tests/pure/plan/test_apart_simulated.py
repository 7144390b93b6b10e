"""Downpour, quorum and averaging on a virtual clock."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, pvariance
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.apart.work import Rounds
from laminar.plan.apart import averaging, deal_of, downpour, quorum, unit_of
from laminar.plan.apart_clock import Clock, Draws, Shared, Thread, middle
from laminar.plan.apart_scene import Scene, Worker
from laminar.plan.machine import Stragglers
from laminar.train.shares import Speed

COMPUTE, PUSH, FETCH, APPLY, STEP, WORD = 10e-3, 0.6e-3, 0.4e-3, 0.3e-3, 0.2e-3, 0.05e-3
COSTS: dict[str, Any] = {
    "push": 1000,
    "parameters": 2000,
    "push_seconds": PUSH,
    "parameters_seconds": FETCH,
    "word_seconds": WORD,
    "apply": APPLY,
    "step": STEP,
}
UNEVEN = Stragglers(0.2, 0.05, 4.0)


def scene(workers: int, cores: int | None = None, **more: Any) -> Scene:
    """Equal workers on one node, each with a core of its own, as servers have."""
    return Scene((Worker(COMPUTE),) * workers, (cores or 3 * workers + 2,), **(COSTS | more))


# One worker: formulas


@pytest.mark.parametrize("pace", [1, 4])
def test_downpour_that_waits_for_its_replies(pace: int) -> None:
    found = downpour(scene(1), n_push=pace, n_fetch=pace, overlap=False)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + (PUSH + APPLY + FETCH) / pace)
    assert found.seconds_p95 == pytest.approx(found.seconds_per_batch)
    assert found.staleness == {0: 1.0}
    assert found.idle == pytest.approx(1 - COMPUTE / found.seconds_per_batch, abs=0.02)


def test_downpour_hides_what_travels_behind_computing() -> None:
    found = downpour(scene(1), n_push=1, n_fetch=1)
    assert found.seconds_per_batch == pytest.approx(COMPUTE)
    assert found.staleness == {1: 1.0}  # its own push before is not in what it computes on
    assert found.bytes_per_batch == pytest.approx(3000)


def test_downpour_on_one_core_hides_nothing() -> None:
    found = downpour(scene(1, cores=1), n_push=1, n_fetch=1)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + PUSH + APPLY + FETCH)


def test_a_unit_ends_with_waiting_and_where_there_are_several_servers_with_asking() -> None:
    found = downpour(scene(1), n_push=2, n_fetch=2, unit=2)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + (PUSH + APPLY + FETCH) / 2)
    assert found.staleness == {0: 1.0}
    one, two = (downpour(scene(1), n_push=2, n_fetch=2, shards=2, overlap=False, unit=unit) for unit in (None, 2))
    assert two.seconds_per_batch == pytest.approx(one.seconds_per_batch + 2 * WORD / 2)


def test_pushes_more_often_than_fetches() -> None:
    found = downpour(scene(1), n_push=1, n_fetch=4, overlap=False)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + PUSH + APPLY + (FETCH + 3 * WORD) / 4)
    assert found.staleness == {0: 1.0}  # it has made its own steps meanwhile
    assert found.bytes_per_batch == pytest.approx(1000 + 2000 / 4)


def test_fetches_more_often_than_pushes() -> None:
    found = downpour(scene(1), n_push=4, n_fetch=1, overlap=False)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + FETCH + (PUSH + APPLY + 3 * WORD) / 4)


def test_quorum_and_averaging_of_one() -> None:
    around = FETCH + PUSH + APPLY + STEP
    assert quorum(scene(1), share=1.0).seconds_per_batch == pytest.approx(COMPUTE + around)
    assert averaging(scene(1), every=8).seconds_per_batch == pytest.approx(COMPUTE + around / 8)
    assert averaging(scene(1), every=8).bytes_per_batch == pytest.approx(3000 / 8)


def test_a_worker_on_another_node_pays_for_the_link() -> None:
    far = Scene((Worker(COMPUTE, 1),), (2, 2), **COSTS, bandwidth=1e6, latency=1e-3)
    around = PUSH + APPLY + FETCH + 3000 / 1e6 + 2 * 1e-3
    assert downpour(far, n_push=1, n_fetch=1, overlap=False).seconds_per_batch == pytest.approx(COMPUTE + around)
    assert quorum(far).seconds_per_batch == pytest.approx(COMPUTE + around + STEP)


# The chief tests epochs meanwhile


@pytest.mark.parametrize("test", [0.02, 0.5])
def test_on_one_core_a_test_takes_the_time_that_it_takes(test: float) -> None:
    one = Scene((Worker(COMPUTE),), (1,), test=test)
    found = downpour(one, n_push=2, n_fetch=2, unit=2, epoch=10)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + test / 10, rel=0.02)
    assert downpour(one, n_push=2, n_fetch=2, unit=2).seconds_per_batch == pytest.approx(COMPUTE), "nobody tests"


def test_a_test_takes_a_core_from_the_workers_beside_the_chief_only() -> None:
    """Half of a core of two for the worker there, while others go on with what it does not do."""
    two = Scene((Worker(COMPUTE), Worker(COMPUTE, 1)), (1, 1), test=0.04)
    found = downpour(two, n_push=2, n_fetch=2, unit=2, epoch=20)
    assert found.seconds_per_batch == pytest.approx((20 * COMPUTE + 0.04) / 2 / 20, rel=0.03)
    assert averaging(two, every=8).seconds_per_batch == averaging(replace(two, test=0.0), every=8).seconds_per_batch


def test_workers_wait_for_a_chief_that_does_not_keep_up() -> None:
    many = Scene((Worker(COMPUTE),) + (Worker(COMPUTE, 1),) * 7, (1, 8), test=1.0)
    found = downpour(many, n_push=1, n_fetch=1, unit=1, epoch=16)
    assert found.seconds_per_batch >= 0.95 * 1.0 / 16
    assert found.idle > 0.5


def test_of_a_long_epoch_a_part_is_simulated_with_its_part_of_the_test() -> None:
    one = Scene((Worker(COMPUTE),), (1,), test=1000.0)
    found = downpour(one, n_push=1, n_fetch=1, unit=1, epoch=100_000)
    assert found.seconds_per_batch == pytest.approx(COMPUTE + 1000.0 / 100_000, rel=0.02)


# Several


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_staleness_of_equal_workers(workers: int) -> None:
    waiting = downpour(scene(workers), n_push=1, n_fetch=1, overlap=False)
    assert waiting.mean_staleness == pytest.approx(workers - 1, rel=0.02)
    assert downpour(scene(workers), n_push=1, n_fetch=1).mean_staleness == pytest.approx(2 * workers - 1, rel=0.03)
    uneven = downpour(scene(workers, stragglers=UNEVEN), n_push=1, n_fetch=1, overlap=False, exchanges=400)
    assert uneven.mean_staleness == pytest.approx(workers - 1, rel=0.05)
    assert len(uneven.staleness) > 1
    assert sum(uneven.staleness.values()) == pytest.approx(1.0)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 6),
    st.floats(0, 0.3),
    st.sampled_from([1, 4]),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    st.booleans(),
)
def test_more_workers_are_never_slower(workers: int, spread: float, pace: int, costs: float, overlap: bool) -> None:
    """Where servers are too slow they are no faster either."""
    dear = {name: costs * COSTS[name] for name in ("push_seconds", "parameters_seconds", "apply")}
    some, more = (scene(count, stragglers=Stragglers(spread), **dear) for count in (workers, 2 * workers))
    few, many = (downpour(each, n_push=pace, n_fetch=pace, overlap=overlap, exchanges=200).seconds_per_batch for each in (some, more))
    assert many <= few * 1.05
    served = (dear["push_seconds"] / 2 + dear["apply"] + dear["parameters_seconds"] / 2) / pace
    assert many >= max(served, COMPUTE / (2 * workers)) * 0.9


def test_two_shards_serve_faster_than_one() -> None:
    busy = scene(8, apply=4e-3)
    one = downpour(busy, n_push=1, n_fetch=1)
    two = downpour(replace(busy, push=500, parameters=1000, apply=2e-3, push_seconds=PUSH / 2), n_push=1, n_fetch=1, shards=2)
    assert one.seconds_per_batch == pytest.approx(4e-3 + PUSH / 2 + FETCH / 2, rel=0.05)
    assert two.seconds_per_batch < 0.6 * one.seconds_per_batch
    assert two.bytes_per_batch == pytest.approx(one.bytes_per_batch, rel=0.05)


def test_a_link_that_all_share_is_what_counts_when_it_is_slow() -> None:
    far = Scene((Worker(COMPUTE),) + (Worker(COMPUTE, 1),) * 4, (8, 8), **COSTS | {"push": 10**6, "parameters": 10**6}, bandwidth=50e6)
    found = downpour(far, n_push=1, n_fetch=1, exchanges=400)
    assert found.bytes_per_batch == pytest.approx(2e6, rel=0.02)
    near = 1 / COMPUTE  # the worker beside the servers does not use it
    full = 50e6 / 1e6  # pushes that the card takes in a second; while all push, nobody receives
    assert near + full / 2 < 1 / found.seconds_per_batch < near + full
    assert found.idle > 0.4


def test_more_workers_than_cores_share_them() -> None:
    crowded = averaging(scene(4, cores=2), every=16)
    assert crowded.seconds_per_batch == pytest.approx(COMPUTE / 2, rel=0.05)
    assert averaging(scene(4), every=16).seconds_per_batch == pytest.approx(COMPUTE / 4, rel=0.05)


def test_too_old_gradients_are_dropped_and_their_workers_get_new_parameters() -> None:
    found = downpour(scene(4, stragglers=UNEVEN), n_push=1, n_fetch=1, max_staleness=5)
    assert 0 < found.dropped < 0.9
    assert max(found.staleness) <= 5
    assert downpour(scene(4, stragglers=UNEVEN), n_push=1, n_fetch=1).dropped == 0


# Rounds


def with_a_slow_one(times: float = 4.0) -> Scene:
    return replace(scene(4), workers=(Worker(COMPUTE),) * 3 + (Worker(times * COMPUTE),))


def test_a_quorum_is_as_fast_as_its_fastest() -> None:
    fast = quorum(scene(4), share=1.0)
    found = quorum(with_a_slow_one(), share=0.75)
    assert found.seconds_per_batch == pytest.approx(fast.seconds_per_batch, rel=0.05)
    assert quorum(with_a_slow_one(), share=1.0).seconds_per_batch > 3 * fast.seconds_per_batch
    # one answer of the slow one in three or four rounds, always too late
    assert 1 / 14 < found.late < 1 / 8
    assert found.dropped == found.late


def test_late_answers_may_be_aged_instead() -> None:
    found = quorum(with_a_slow_one(), share=0.75, late="age")
    assert found.dropped == 0
    assert found.late > 0
    assert max(found.staleness) >= 3


def test_a_round_ends_at_its_deadline() -> None:
    found = quorum(with_a_slow_one(100.0), share=1.0, deadline=0.05)
    assert found.seconds_per_batch == pytest.approx(0.05, rel=0.05)
    assert found.staleness == {0: 1.0}


def test_a_deadline_before_any_answer_delays_and_loses_nothing() -> None:
    found = quorum(scene(2), share=1.0, deadline=COMPUTE / 2)
    assert found.dropped == 0
    assert found.seconds_per_batch < 3 * COMPUTE


def test_averaging_waits_for_the_slowest_unless_shares_are_measured() -> None:
    equal, measured = (averaging(with_a_slow_one(), every=13, measured=measured).seconds_per_batch for measured in (False, True))
    assert equal == pytest.approx(COMPUTE, rel=0.03)  # 4 x 13 batches in 13 slow ones
    assert measured == pytest.approx(COMPUTE / 3.25, rel=0.1)


def test_averages_seldom_wait_less_for_stragglers() -> None:
    uneven = scene(8, stragglers=UNEVEN)
    often, seldom, last = (averaging(uneven, every=every).seconds_per_batch for every in (1, 8, 128))
    assert often > 1.2 * seldom > 1.2 * 1.2 * last
    assert last > COMPUTE / 8


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(("every", "epoch", "workers"), [(4, 22, 2), (32, 22, 3), (5, 50, 4), (1, 7, 3), (2, 9, 4)])
def test_batches_are_dealt_as_in_training(every: int, epoch: int, workers: int, measured: bool) -> None:
    speeds = [COMPUTE * (1 + i) for i in range(workers)]
    found = deal_of(replace(scene(workers), workers=tuple(map(Worker, speeds))), every, epoch, measured)
    known = {str(i): Speed(value=1 / seconds) for i, seconds in enumerate(speeds)} if measured else None
    rounds = Rounds(batches=epoch, epochs=3, batch=1, samples=epoch, every=every, speeds=known)
    names = [str(i) for i in range(workers)]
    step = 0
    while not rounds.finished:
        tasks = rounds.open(step, names)
        dealt, ahead = found(step)
        assert ahead == rounds.ahead
        batches = [(tasks[name].last or 0) - tasks[name].first if name in tasks else 0 for name in names]
        assert sum(batches) == sum(dealt) == ahead
        if not measured:  # measured shares change only where it helps enough
            assert list(dealt) == batches
        rounds.close()
        step += 1


def test_short_epochs_make_short_rounds() -> None:
    found = averaging(scene(2), every=32, epoch=22)
    assert found.seconds_per_batch == pytest.approx(COMPUTE / 2, rel=0.1)
    assert found.bytes_per_batch == pytest.approx(2 * 3000 / 22)


def test_workers_without_a_batch_are_not_waited_for() -> None:
    assert averaging(scene(4), every=1, epoch=2).seconds_per_batch > COMPUTE / 2


def test_units_are_a_share_of_an_epoch() -> None:
    assert [unit_of(150, 1, 1), unit_of(150, 2, 1), unit_of(150, 2, 4), unit_of(22, 2, 4)] == [18, 9, 8, 4]


# Chance


def test_a_seed_always_gives_the_same() -> None:
    uneven = scene(3, stragglers=UNEVEN)
    for run in (downpour, quorum, averaging):
        assert run(uneven) == run(uneven)
        assert run(uneven, seeds=[7]) == run(uneven, seeds=[7])
        assert run(uneven, seeds=[7]) != run(uneven, seeds=[8])


def test_the_worst_seeds_are_slower_than_the_middle_ones() -> None:
    found = quorum(scene(4, stragglers=UNEVEN), share=1.0)
    assert found.seconds_per_batch < found.seconds_p95
    assert found.seconds_per_batch > COMPUTE + FETCH + PUSH


@pytest.mark.parametrize("count", [1, 8, 64])
def test_draws_have_the_mean_and_the_spread_that_they_should(count: int) -> None:
    draws = Draws(UNEVEN, 0, 2)
    found = [draws.steps(0, count) for _ in range(20_000 // count + 500)]
    assert mean(found) == pytest.approx(count * UNEVEN.mean, rel=0.03)
    square = math.exp(2 * 0.2**2) * (1 + 0.05 * 15)
    assert pvariance(found) == pytest.approx(count * (square - UNEVEN.mean**2), rel=0.15)
    assert draws.steps(1, count) != draws.steps(0, count)


def test_middles() -> None:
    assert middle([3.0], 0.95) == 3.0
    assert middle([4.0, 1.0, 2.0, 3.0, 5.0], 0.5) == 3.0
    assert middle([0.0, 10.0], 0.95) == 9.5


# The clock


def ends(room: int, pieces: list[tuple[float, float]]) -> list[float]:
    clock, found = Clock(), [0.0] * len(pieces)
    shared = Shared(clock, room)

    def ended(number: int) -> None:
        found[number] = clock.now

    for number, (begin, _) in enumerate(pieces):
        clock.after(begin, lambda one: shared.add(pieces[one][1], ended, one), number)
    clock.run()
    return found


def slowly(room: int, pieces: list[tuple[float, float]]) -> list[float]:
    """The same, counted anew at every change."""
    now, left, found = 0.0, [work for _, work in pieces], [0.0] * len(pieces)
    open_ = set(range(len(pieces)))
    while open_:
        active = [i for i in open_ if pieces[i][0] <= now]
        rate = min(1.0, room / len(active)) if active else 1.0
        step = min([left[i] / rate for i in active] + [pieces[i][0] - now for i in open_ if pieces[i][0] > now])
        for i in active:
            left[i] -= step * rate
        now += step
        for i in active:
            if left[i] <= 1e-9:
                open_.remove(i)
                found[i] = now
    return found


def test_what_shares_a_core_takes_longer() -> None:
    assert ends(1, [(0, 1), (0, 1)]) == pytest.approx([2, 2])
    assert ends(2, [(0, 1), (0, 1)]) == pytest.approx([1, 1])
    assert ends(1, [(0, 1), (0.5, 1)]) == pytest.approx([1.5, 2])


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=8))
def test_shared_work_ends_as_if_counted_anew_each_time(room: int, pieces: list[tuple[int, int]]) -> None:
    given_ = [(float(begin), float(work)) for begin, work in pieces]
    assert ends(room, given_) == pytest.approx(slowly(room, given_), abs=1e-6)


def test_a_thread_does_one_thing_after_the_other_and_what_comes_first_first() -> None:
    clock, said = Clock(), list[tuple[str, float]]()
    thread = Thread(Shared(clock, 4))

    def say(name: str) -> None:
        said.append((name, clock.now))
        if name == "a":
            thread.do(1.0, say, "now", first=True)

    for name in ("a", "b"):
        thread.do(1.0, say, name)
    clock.run()
    assert said == [("a", 1.0), ("now", 2.0), ("b", 3.0)]
