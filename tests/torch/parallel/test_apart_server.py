"""A server: rounds and arrivals, whoever dies, stalls, joins or lies, and whatever it was doing when it was killed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from apart_bench import Bench, Peer, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from laminar.core.clock import FakeClock
from laminar.data.dataset import Dataset, Split
from laminar.parallel.apart.decisions import INTERRUPTED
from laminar.parallel.apart.judge import Judgement
from laminar.parallel.apart.messages import Alive, Ask, Chief, Fetch, Finished, Here, Push, Refused, Round, Taken, Unit
from laminar.parallel.apart.progress import Told
from laminar.parallel.apart.server import SNAPSHOT_SECONDS, STALL_SECONDS
from laminar.parallel.apart.work import Task
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, Quorum

Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Bench] = []

    def bench(how: AnyStrategy, **more: Any) -> Bench:
        made.append(Bench(tmp_path / str(len(made)), plan(how, **more)))
        return made[-1]

    yield bench
    for one in made:
        one.close()


def rounds(*peers: Peer) -> list[Round]:
    found = [peer.task() for peer in peers]
    assert all(isinstance(one, Round) for one in found), found
    return found  # type: ignore[return-value]


# Quorum


def test_a_round_closes_when_a_share_has_answered_and_the_late_answer_changes_nothing(make: Make) -> None:
    bench = make(Quorum(workers=3, quorum=0.6))
    a, b, c = bench.peer("0"), bench.peer("1"), bench.peer("2")
    first = rounds(a, b, c)
    assert [one.task.rows for one in first] == [(0, 2), (2, 5), (5, 8)]
    assert a.answer(first[0], 3, 0, 0, 0, work=2) == []
    assert bench.weights() == [0, 0, 0, 0]
    (next_b,) = b.answer(first[1], 0, 3, 0, 0, work=1)
    assert isinstance(next_b, Round) and next_b.task.number == 1 and next_b.task.first == 1
    assert bench.weights() == [-2, -1, 0, 0]
    (next_c,) = c.answer(first[2], 0, 0, 9, 0)
    assert isinstance(next_c, Round) and next_c.task == Task(number=1, first=1, last=2, rows=(5, 8))
    assert bench.weights() == [-2, -1, 0, 0]
    assert bench.decisions.aggregator.statistics.dropped == {"late": 1}


def test_a_late_answer_is_aged_into_the_next_step_where_that_is_asked_for(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=0.5, late="age", ageing=1.0))
    a, b = bench.peer("0"), bench.peer("1")
    first = rounds(a, b)
    (second,) = a.answer(first[0], 1, 0, 0, 0)
    b.answer(first[1], 0, 1, 0, 0)
    assert isinstance(second, Round)
    a.answer(second, 0, 0, 1, 0)
    assert bench.weights() == pytest.approx([-1, -1 / 3, -2 / 3, 0])  # of two in one step, the old one weighs half as much


def test_a_round_waits_no_longer_than_its_deadline(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0, deadline=3.0))
    a, b = bench.peer("0"), bench.peer("1")
    one, _ = rounds(a, b)
    assert a.answer(one, 1, 1, 1, 1) == []
    bench.turn(2.9)
    assert a.heard()[0] == []
    bench.turn(0.2)
    (again,) = a.heard()[0]
    assert isinstance(again, Round) and again.task.number == 1
    assert bench.weights() == [-1, -1, -1, -1]
    assert bench.server.report.team(bench.decisions)["missing"] == {"1": 1}


def test_who_comes_in_the_middle_of_a_round_takes_part_in_the_next(make: Make) -> None:
    bench = make(Quorum(workers=1, quorum=1.0))
    a = bench.peer("0")
    b = bench.peer()
    assert b.name == "1" and b.task() is None
    (one,) = rounds(a)
    a.answer(one, 1, 0, 0, 0)
    assert [round_.task.rows for round_ in rounds(a, b)] == [(0, 4), (4, 8)]


def test_when_all_have_left_a_new_one_goes_on(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0), batches=2, epochs=1)
    a, b = bench.peer("0"), bench.peer("1")
    one, _ = rounds(a, b)
    a.answer(one, 2, 0, 0, 0, work=4)
    a.leave(), b.leave()
    assert bench.weights() == [-2, 0, 0, 0]  # what had come was a step, since nobody else would answer
    assert bench.decisions.position == 1
    c = bench.peer()
    (two,) = rounds(c)
    assert two.task.first == 1 and two.task.rows == (0, 8)
    assert c.answer(two, 0, 1, 0, 0) == [Finished(why="all epochs done")]


def test_when_all_leave_without_an_answer_the_round_is_another_ones(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0))
    bench.peer("0").leave()
    a, b = bench.peer("0"), bench.peer("1")
    a.leave(), b.leave()
    c = bench.peer()
    (one,) = rounds(c)
    assert one.task.first == 0
    assert isinstance(c.answer(one, 1, 0, 0, 0)[0], Round)


@pytest.mark.parametrize("quorum", [0.3, 1.0])
def test_workers_without_samples_are_not_waited_for(make: Make, quorum: float) -> None:
    bench = make(Quorum(workers=3, quorum=quorum), batches=2, epochs=1, batch=8, samples=13)
    peers = [bench.peer(str(i)) for i in range(3)]
    for peer, one in zip(peers, rounds(*peers), strict=True):
        peer.answer(one, 1, 0, 0, 0)
    given = [(peer, task) for peer in peers if isinstance(task := peer.task(), Round)]
    assert [task.task.rows for _, task in given] == [(0, 2), (2, 5)]  # of five samples the last has none, so that none has a single one
    assert bench.decisions.position == 1 and not bench.decisions.finished
    for peer, task in given:
        peer.answer(task, 0, 1, 0, 0)
    assert bench.decisions.finished == "all epochs done"
    assert bench.weights() == pytest.approx([-1, -1, 0, 0])
    bench.turn()
    assert all(peer.heard()[0] or peer is given[-1][0] or quorum < 1 for peer in peers)


def test_a_minimum_above_the_samples_of_the_last_batch_is_no_dead_end(make: Make) -> None:
    bench = make(Quorum(workers=3, quorum=1.0, minimum=3), batches=1, epochs=1, batch=8, samples=2)
    peers = [bench.peer(str(i)) for i in range(3)]
    task = peers[0].task()
    assert isinstance(task, Round) and task.task.rows == (0, 2)
    peers[0].answer(task, 1, 0, 0, 0)
    assert bench.decisions.finished == "all epochs done" and bench.weights() == pytest.approx([-1, 0, 0, 0])


def test_the_first_round_does_not_wait_for_a_worker_that_will_not_come(make: Make) -> None:
    bench = make(Quorum(workers=3))
    a, b = bench.peer("0"), bench.peer("1")
    bench.turn(100.0)
    assert a.task() is None
    bench.chief(Chief(absent=["2"]))
    assert [one.task.rows for one in rounds(a, b)] == [(0, 4), (4, 8)]


def test_rows_go_by_measured_speed_also_of_answers_that_are_too_late_and_after_a_restart(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=0.5, shares="measured"), batches=9)
    a, b = bench.peer("0"), bench.peer("1")
    one, two = rounds(a, b)
    assert [one.task.rows, two.task.rows] == [(0, 4), (4, 8)]
    (one,) = a.answer(one, 0, 0, 0, 0, work=4, seconds=1.0)
    assert isinstance(one, Round) and one.task.rows == (0, 4)
    (two,) = b.answer(two, 0, 0, 0, 0, work=4, seconds=3.0)  # late
    assert bench.decisions.aggregator.statistics.dropped == {"late": 1}
    a.answer(one, 0, 0, 0, 0, work=4, seconds=1.0)
    assert bench.decisions.tasks["0"].rows == (0, 6)
    assert bench.server.report.team(bench.decisions)["shares"] == {"0": 0.75, "1": 0.25}
    bench.turn(60.0)  # it is in a snapshot
    bench.crash()
    bench.restart()
    assert bench.decisions.rounds.shares == {"0": 6, "1": 2}


def test_after_an_epoch_rounds_wait_for_the_test_however_long_it_takes(make: Make) -> None:
    bench = make(Quorum(workers=1, deadline=3.0), batches=1, epochs=2)
    a = bench.peer("0")
    assert a.answer(rounds(a)[0], 1, 0, 0, 0) == []
    assert bench.said("epoch") == [0]
    bench.turn(20.0)
    assert a.heard()[0] == []
    bench.chief(Chief(tested=0))
    (one,) = rounds(a)
    assert one.task.epoch == 1
    a.answer(one, 1, 0, 0, 0)
    assert bench.said("epoch") == [0, 1] and [told["last"] for told in bench.told if "epoch" in told] == [False, True]
    assert bench.server.report.team(bench.decisions)["missing"] == {}


# Downpour


def test_every_push_is_a_step_weighed_by_its_age(make: Make) -> None:
    bench = make(Downpour(workers=2, ageing=1.0))
    a, b = bench.peer("0"), bench.peer("1")
    assert a.push(0, 1, 0, 0, 0) == [Taken(version=1, kept=-1)]
    assert b.push(0, 0, 1, 0, 0) == [Taken(version=2, kept=-1)]
    assert bench.weights() == [-1, -0.5, 0, 0]
    bench.turn(1.0)
    assert [row[3:] for row in bench.said("steps")[0]] == [[0, "0"], [1, "1"]]


def test_a_stale_push_is_dropped_and_its_worker_gets_newer_parameters(make: Make) -> None:
    bench = make(Downpour(workers=1, max_staleness=1))
    a, b = bench.peer("0"), bench.peer("1")
    for i in range(2):
        a.push(i, 1, 0, 0, 0, base=i)
    packet = b.packet(0, 1, 0, 0)
    found, data = b.ask(Push(sequence=0, base=0, work=1, batches=1, packet=packet.nbytes), packet.data)
    assert found == [Taken(version=2, kept=-1, dropped="stale")]
    assert torch.frombuffer(bytearray(data), dtype=torch.float32).tolist() == bench.weights() == [-2, 0, 0, 0]


def test_the_same_push_again_is_acknowledged_and_not_applied(make: Make) -> None:
    bench = make(Downpour(workers=1), batches=1, epochs=1)
    a = bench.peer("0")
    (unit,) = a.ask(Ask())[0]
    assert isinstance(unit, Unit)
    for _ in range(3):
        assert a.push(0, 1, 0, 0, 0, tally={"seen": 8.0}, unit=0) == [Taken(version=1, kept=-1)]
    assert bench.weights() == [-1, 0, 0, 0]
    a.ask(Ask(done=0))
    assert [told["train"] for told in bench.told if "epoch" in told] == [{"seen": 8.0}]
    assert bench.decisions.pushes == {}


def test_the_answer_to_a_push_brings_the_next_unit_where_there_is_one(make: Make) -> None:
    bench = make(Downpour(workers=1), batches=4, epochs=1, unit=2)
    a = bench.peer("0")
    a.ask(Ask())
    assert a.push(0, 1, 0, 0, 0, batches=1, unit=0) == [Taken(version=1, kept=-1)]
    second = Task(number=1, first=2, last=4)
    assert a.push(1, 1, 0, 0, 0, base=1, batches=1, unit=0, ask=True) == [Taken(version=2, kept=-1, task=second)]
    # again, since the answer did not arrive: applied once, and the unit is still its own, and whole
    assert a.push(1, 1, 0, 0, 0, base=1, batches=1, unit=0, ask=True) == [Taken(version=2, kept=-1, task=second)]
    assert bench.decisions.position == 2 and bench.decisions.units.done == 2
    a.push(2, 1, 0, 0, 0, base=2, batches=2, unit=1, ask=True)
    assert a.more[-1] == Taken(version=3, kept=-1)  # there is none: it has to ask
    assert a.ask(Ask(done=1))[0] == [Finished(why="all epochs done")]
    assert bench.weights() == [-3, 0, 0, 0] and bench.decisions.position == 4


def test_a_push_that_asks_waits_for_nobody(make: Make) -> None:
    """The first of two warms up alone, and epochs that are not tested hold up work; neither holds up the answer."""
    bench = make(Downpour(workers=1), batches=1, epochs=4)
    a = bench.peer("0")
    a.ask(Ask())
    assert a.push(0, 1, 0, 0, 0, unit=0, ask=True) == [Taken(version=1, kept=-1, task=Task(number=1, epoch=1, first=0, last=1))]
    assert a.push(1, 1, 0, 0, 0, base=1, unit=1, ask=True) == [Taken(version=2, kept=-1)]  # two epochs are not tested
    assert a.ask(Ask(done=1))[0] == []
    bench.chief(Chief(tested=0))
    assert a.heard()[0] == [Unit(task=Task(number=2, epoch=2, first=0, last=1))]


def test_units_of_the_dead_are_done_by_others_from_where_they_were(make: Make) -> None:
    bench = make(Downpour(workers=2), batches=6, epochs=1, unit=6)
    a, b = bench.peer("0"), bench.peer("1")
    assert a.ask(Ask())[0] == [Unit(task=Task(number=0, first=0, last=6))]
    a.push(0, 1, 0, 0, 0, batches=4, unit=0)
    assert b.ask(Ask())[0] == []
    a.leave()
    assert b.heard()[0] == [Unit(task=Task(number=0, first=4, last=6))]
    b.push(0, 1, 0, 0, 0, batches=2, unit=0)
    assert b.ask(Ask(done=0))[0] == [Finished(why="all epochs done")]
    assert bench.decisions.position == 6


def test_nobody_waits_for_one_that_warms_up_and_dies(make: Make) -> None:
    bench = make(Downpour(workers=2, warm_start=2), batches=4, epochs=1)
    a, b = bench.peer("0"), bench.peer("1")
    assert len(a.ask(Ask())[0]) == 1 and b.ask(Ask())[0] == []
    bench.server.save()
    bench.crash()
    bench.restart()
    b.hello()
    assert isinstance(b.ask(Ask())[0][0], Unit)  # whoever asks first, also where the one of before never comes back


def test_a_name_is_free_where_nobody_is_expected(make: Make) -> None:
    bench = make(Downpour(workers=3))
    assert bench.peer().name == "3"
    second = bench.peer()
    assert second.name == "4"
    assert bench.peer("0").name == "0"
    second.leave()
    assert bench.peer().name == "4"
    assert [told["rank"] for told in bench.said("joined")] == [3, 4, 0, 4] and bench.said("gone") == ["4"]


# Silence


def test_who_says_nothing_is_named_and_dropped_but_not_while_it_waits(make: Make) -> None:
    bench = make(Quorum(workers=2, timeout=5.0, deadline=1000.0))
    a, b = bench.peer("0"), bench.peer("1")
    one, _ = rounds(a, b)
    assert a.answer(one, 1, 0, 0, 0) == []
    bench.turn(4.0)
    b.ask(Alive())
    bench.turn(4.0)
    assert bench.said("lost") == []
    bench.turn(2.0)
    assert [(told["lost"], told["why"]) for told in bench.told if "lost" in told] == [("1", "said nothing for 5 s")]
    (two,) = rounds(a)  # and the round is closed without it
    bench.turn(4.0)
    assert len(bench.said("lost")) == 1, "it was silent for longer, but had nothing to say until now"
    a.answer(two, 1, 0, 0, 0)


def test_a_server_that_was_stopped_itself_has_not_heard_and_drops_nobody(make: Make) -> None:
    bench = make(Quorum(workers=2, timeout=5.0, deadline=1000.0))
    a, b = bench.peer("0"), bench.peer("1")
    rounds(a, b)
    bench.clock.advance(60.0)
    bench.server.was_away(60.0)
    bench.server.look(bench.clock.monotonic())  # before it has heard what waits
    assert bench.said("lost") == []
    bench.turn(6.0)
    assert bench.said("lost") == ["0", "1"], "this time it is their silence"


def test_a_server_says_that_it_is_there_to_whoever_waits_and_asks(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0))
    a, b = bench.peer("0"), bench.peer("1")
    a.answer(rounds(a, b)[0], 1, 0, 0, 0)
    assert a.ask(Alive()) == ([], b"") and a.ask(Alive(answer=True)) == ([Here()], b"")


def test_who_waited_long_for_work_is_not_dropped_when_it_comes(make: Make) -> None:
    bench = make(Downpour(workers=2, timeout=5.0, warm_start=1), batches=4, epochs=1)
    a, b = bench.peer("0"), bench.peer("1")
    a.ask(Ask()), b.ask(Ask())
    for _ in range(5):
        bench.turn(4.0)
        a.ask(Alive())
    a.push(0, 1, 0, 0, 0, unit=0)
    a.ask(Ask(done=0))
    assert isinstance(b.task(), Unit)
    bench.turn(4.0)
    assert bench.said("lost") == []


def test_a_server_beside_the_first_tells_its_bytes_also_at_the_end(tmp_path: Path) -> None:
    """Else what is shown as sent would be that of one shard."""
    made = plan(Downpour(workers=1, shards=2))
    bench = Bench(tmp_path / "b", msgspec.structs.replace(made, shards=[{"v": (4,)}, {"w": (4,)}]), shard=1)
    bench.peer("0")
    bench.turn(0.3)
    (before,) = bench.said("bytes")
    assert all(count > 0 for count in before)
    bench.turn(0.3)
    assert len(bench.said("bytes")) == 1, "nothing new"
    bench.chief(Chief(keep=True))
    received, _ = bench.said("bytes")[-1]
    assert received > before[0], "told by the time of the answer"
    bench.close()


def nothing_told(folder: Path, how: Downpour) -> Told:
    x, y = np.zeros((8, 3), dtype=np.float32), np.arange(8) % 2
    recipe, data = Recipe(epochs=1, strategy=how), Dataset(Split(x, y), Split(x, y), ("a", "b"))
    return Told(Job("layer", nn.Linear(3, 2), data, recipe, None, folder, tensorboard=False), plan(how), folder)


def test_bytes_of_all_servers_are_shown(tmp_path: Path) -> None:
    told = nothing_told(tmp_path, Downpour(workers=2, shards=3))
    assert told.team == {}
    told.first = {"workers": 2, "bytes": 30, "bytes_in": 10, "bytes_out": 20}
    told.others = {1: (1, 2), 2: (100, 200)}
    assert told.team == {"workers": 2, "bytes": 333, "bytes_in": 111, "bytes_out": 222}


def test_the_end_counts_workers_that_took_part_not_those_that_are_there(tmp_path: Path) -> None:
    told = nothing_told(tmp_path, Downpour(workers=3))
    assert told.whole == {}  # it went on from a snapshot of the end: nobody said anything
    there = {"bytes": 1, "bytes_in": 1, "bytes_out": 0}
    told.first = {"workers": 1, **there, "computing": {"0": 1.5, "3": 0.5}, "waiting": {"0": 0.0, "3": 0.0}}
    assert told.team["workers"] == 1
    assert told.whole == told.first | {"workers": 2, "wanted": 3}  # 3 joined and left again; 1 and 2 came when it was over


def test_epochs_that_end_together_have_the_rate_of_both(tmp_path: Path) -> None:
    told, rates = nothing_told(tmp_path, Downpour(workers=2)), []
    told.history = SimpleNamespace(epoch=lambda **event: rates.append(event["samples_per_second"]))  # type: ignore[assignment]
    told.trains_from(5.0)
    for epoch, at in enumerate((7.0, 7.0 + 1e-6, 8.0 + 1e-6)):
        told.epoch(Judgement(epoch, epoch, {}, {"loss": 1.0}, "", "", False, {}, at), at)
    samples = told.plan.samples
    assert rates == pytest.approx([samples / 2, samples, samples], rel=1e-3)


def test_an_epoch_that_was_interrupted_takes_the_time_of_both_parts(tmp_path: Path) -> None:
    told, history = nothing_told(tmp_path, Downpour(workers=2)), []
    tell = SimpleNamespace(epoch=lambda **event: history.append(event["seconds"]), flush=lambda: 0)
    clock = FakeClock(10.0)
    told.history, told.job = tell, dataclasses.replace(told.job, clock=clock)  # type: ignore[assignment]
    told.save()
    assert json.loads(told.path.read_bytes())["epoch_seconds"] == 0.0  # nobody trains yet
    told.trains_from(clock.monotonic())
    clock.advance(3.0)
    told.save()
    again = Told(told.job, told.plan, told.path.parent)
    again.history = tell  # type: ignore[assignment]
    assert again.load()
    clock.advance(100.0)
    again.save()
    again.trains_from(clock.monotonic())
    clock.advance(1.0)
    again.epoch(Judgement(0, 0, {}, {"loss": 1.0}, "", "", False, {}, clock.monotonic()), clock.monotonic())
    clock.advance(2.0)
    again.epoch(Judgement(1, 1, {}, {"loss": 1.0}, "", "", False, {}, clock.monotonic()), clock.monotonic())
    assert history == [4.0, 2.0]


def test_a_server_that_only_holds_parameters_drops_nobody(tmp_path: Path) -> None:
    made = plan(Downpour(workers=1, shards=2, timeout=5.0))
    bench = Bench(tmp_path / "b", msgspec.structs.replace(made, shards=[{"v": (4,)}, {"w": (4,)}]), shard=1)
    a = bench.peer("0")
    bench.turn(50.0)
    assert bench.said("lost") == [] and bench.said("joined") == []
    assert a.push(0, 1, 0, 0, 0) == [Taken(version=1, kept=-1)]
    bench.close()


def test_a_stall_is_told_once_and_not_at_once(make: Make) -> None:
    bench = make(Downpour(workers=1))
    a = bench.peer("0")
    a.push(0, 1, 0, 0, 0)
    for pid in range(2, 6):  # dies, and is there again
        a.leave()
        bench.turn(1.0)
        a = bench.peer("0", pid)
    assert bench.said("note") == []
    a.leave()
    for _ in range(5):
        bench.turn(STALL_SECONDS)
    assert bench.said("note") == ["no step can be made: no workers, 0 there"]


def test_a_server_with_nothing_to_tell_says_that_it_is_there(make: Make) -> None:
    bench = make(Downpour(workers=1))
    for _ in range(10):
        bench.turn(0.5)
    assert 3 <= len(bench.said("here")) <= 6
    assert bench.said("kept") == []  # nothing has changed since the snapshot that it started from


# Lies


BAD: list[Any] = [
    {"say": "push"},
    {"say": "nonsense"},
    {},
    {"say": "push", "sequence": -1, "base": 0, "work": 1.0, "batches": 1},
    {"say": "push", "sequence": 0, "base": 0, "work": 0.0, "batches": 1},
    {"say": "push", "sequence": 0, "base": 0, "work": 1.0, "batches": -4},
    {"say": "push", "sequence": 0, "base": 0, "work": 1.0, "batches": 1, "packet": 100},
    {"say": "push", "sequence": 0, "base": 0, "work": 1.0, "batches": 1, "packet": 0},
    {"say": "hello", "worker": "../somewhere"},
    {"say": "welcome", "worker": "0", "version": 0, "next": 0, "kept": 0},
]


@pytest.mark.parametrize("how", [Quorum(workers=2), Downpour(workers=2)])
@pytest.mark.parametrize("bad", BAD)
def test_a_message_that_makes_no_sense_is_refused_and_the_others_go_on(make: Make, how: AnyStrategy, bad: Any) -> None:
    bench = make(how)
    a, b = bench.peer("0"), bench.peer("1")
    found, _ = b.ask(bad)
    assert isinstance(found[-1], Refused) and found[-1].code == "L403"
    assert len(bench.said("lost")) == 1 and bench.decisions.aggregator.workers == ("0",)
    assert bench.weights() == [0, 0, 0, 0]
    if isinstance(how, Downpour):
        assert a.push(0, 1, 0, 0, 0) == [Taken(version=1, kept=-1)]
    else:
        a.answer(rounds(a)[0], 1, 0, 0, 0)
    assert bench.weights() == [-1, 0, 0, 0]


@pytest.mark.parametrize("damage", ["short", "foreign", "nan", "buffers"])
def test_a_bad_packet_takes_nothing_of_the_others_with_it(make: Make, damage: str) -> None:
    bench = make(Quorum(workers=2, quorum=1.0), buffers=2)
    a, b = bench.peer("0"), bench.peer("1")
    first = rounds(a, b)
    a.answer(first[0], 1, 0, 0, 0)  # is held
    packet = bytearray(b.packet(0, 1, 0, 0).data)
    extra = b""
    if damage == "short":
        del packet[-1:]
    elif damage == "foreign":
        packet[8] ^= 0xFF
    elif damage == "nan":
        packet[-4:] = b"\x00\x00\xc0\x7f"
    else:
        extra = b"123"
    found, _ = b.ask(Push(sequence=0, base=0, work=1, batches=1, round=0, packet=len(packet)), bytes(packet), extra)
    assert isinstance(found[-1], Refused)
    assert bench.weights() == [-1, 0, 0, 0]  # the round is closed without it
    assert isinstance(a.task(), Round)


def test_work_is_not_asked_for_where_it_is_given_out(make: Make) -> None:
    bench = make(Quorum(workers=1))
    a = bench.peer("0")
    assert isinstance(a.ask(Ask())[0][-1], Refused)
    b = Peer(bench, "1", 2)
    b.link = a.link.__class__(bench.hub.address, "token", timeout=5.0)
    packet = b.packet(1, 0, 0, 0)
    assert isinstance(b.ask(Push(sequence=0, base=0, work=1, batches=1, packet=packet.nbytes), packet.data)[0][-1], Refused)


# Buffers, and tensors without gradients


def test_when_it_is_over_buffers_are_the_mean_of_all_whoever_leaves_first(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0), buffers=1)
    a, b = bench.peer("0"), bench.peer("1")
    one, two = rounds(a, b)
    a.answer(one, 1, 0, 0, 0, buffers=_doubles(1.0))
    b.answer(two, 1, 0, 0, 0, buffers=_doubles(3.0))
    bench.chief(Chief(stop="target reached"))
    for peer in (b, a):
        peer.leave()
        bench.chief()
        assert bench.buffers == [2.0]
    bench.server.save()
    bench.crash()
    bench.restart()
    bench.turn(1000.0)  # nobody comes back
    bench.chief()
    assert bench.buffers == [2.0]


def test_buffers_are_the_mean_of_those_who_are_there(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0), buffers=2)
    a, b = bench.peer("0"), bench.peer("1")
    one, two = rounds(a, b)
    big = float(2**40 + 1)  # whole numbers stay whole
    a.answer(one, 1, 0, 0, 0, buffers=_doubles(1.0, big))
    b.answer(two, 1, 0, 0, 0, buffers=_doubles(3.0, big))
    bench.chief()
    assert bench.buffers == [2.0, big]
    b.leave()
    bench.chief()
    assert bench.buffers == [1.0, big]
    a.leave()
    bench.chief()
    assert bench.buffers == [1.0, big]


def _doubles(*values: float) -> bytes:
    return torch.tensor(values, dtype=torch.float64).numpy().tobytes()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_a_tensor_without_a_gradient_is_left_alone(tmp_path: Path, optimizer: str) -> None:
    shapes = {"v": (2,), "w": (2,)}
    more = {"momentum": 0.9} if optimizer == "sgd" else {}
    bench = Bench(tmp_path / "b", plan(Downpour(workers=1, ageing=0), shapes=shapes, optimizer=optimizer, lr=0.1, weight_decay=0.5, **more))
    bench.decisions.numbers.row.fill_(1.0)
    a = bench.peer("0")
    for i in range(3):
        a.push(i, 0, 0, 1, 1, base=i, idle=[0])
    row = bench.weights()
    assert row[:2] == [1, 1] and row[2] < 1
    bench.server.save()
    bench.crash()
    bench.restart()
    a.hello()
    a.push(3, 0, 0, 1, 1, base=3, idle=[0])
    assert bench.weights()[:2] == [1, 1]
    a.push(4, 1, 1, 1, 1, base=4)  # now it has one
    assert bench.weights()[0] < 1
    bench.close()


# Restarts


def test_of_one_who_does_not_come_back_the_chief_is_told(make: Make) -> None:
    bench = make(Downpour(workers=1))
    bench.peer("0"), bench.peer()
    bench.server.save()
    bench.crash()
    bench.restart()
    bench.peer("0")
    bench.turn(bench.plan.how.timeout + 1)
    assert "1" in bench.said("gone")  # who had joined, and whom the chief would wait for without end


@pytest.mark.parametrize("again", [True, False])
def test_an_answer_that_was_held_is_still_there_and_the_other_is_waited_for(make: Make, again: bool) -> None:
    bench = make(Quorum(workers=2, quorum=1.0))
    a, b = bench.peer("0"), bench.peer("1")
    first = rounds(a, b)
    a.answer(first[0], 2, 0, 0, 0)
    bench.server.save()
    bench.crash()
    bench.restart(again=again)
    a.pid = b.pid = 1 if again else 2
    a.hello()
    assert a.task() is None
    b.hello()
    (one,) = rounds(b)
    assert one.task == first[1].task
    (next_one,) = b.answer(one, 0, 2, 0, 0)
    assert isinstance(next_one, Round) and isinstance(a.task(), Round)
    assert bench.weights() == [-1, -1, 0, 0]


def test_an_answer_to_a_round_that_the_server_has_forgotten_does_not_stand_in_the_way_of_the_next(make: Make) -> None:
    """Answers go by the number of their round: one that was remembered would make the right one a repetition, for ever."""
    bench = make(Quorum(workers=2, quorum=1.0))
    a, b = bench.peer("0"), bench.peer("1")
    bench.server.save()
    first = rounds(a, b)
    a.answer(first[0], 2, 0, 0, 0)
    b.answer(first[1], 0, 2, 0, 0)
    (ahead,) = rounds(a)
    assert ahead.task.number == 1
    bench.crash()
    bench.restart()
    a.busy = 1
    a.hello()
    b.hello()
    a.answer(ahead, 9, 9, 9, 9)
    for expected in ([-1, -1, 0, 0], [-2, -2, 0, 0]):
        again = rounds(a, b)
        a.answer(again[0], 2, 0, 0, 0)
        b.answer(again[1], 0, 2, 0, 0)
        assert bench.weights() == expected


def test_whoever_does_not_come_back_is_not_waited_for(make: Make) -> None:
    bench = make(Quorum(workers=2, quorum=1.0, timeout=5.0, deadline=1000.0))
    a, b = bench.peer("0"), bench.peer("1")
    a.answer(rounds(a, b)[0], 2, 0, 0, 0)
    bench.server.save()
    bench.crash()
    bench.restart()
    a.hello()
    bench.turn(4.0)
    assert a.task() is None
    bench.turn(2.0)
    assert isinstance(a.task(), Round) and bench.weights() == [-2, 0, 0, 0]


def test_a_guest_of_an_earlier_build_is_not_waited_for(make: Make) -> None:
    bench = make(Averaging(workers=1, every=1))
    a, b = bench.peer("0"), bench.peer()
    a.answer(rounds(a)[0], 1, 0, 0, 0)
    a.answer(rounds(a, b)[0], 1, 0, 0, 0)
    bench.server.save()
    bench.crash()
    bench.restart(again=False)
    a.pid = 2
    a.hello()
    assert isinstance(a.task(), Round) and bench.weights() == [-2, 0, 0, 0]


def test_an_epoch_that_was_not_tested_is_told_again_and_waited_for(make: Make) -> None:
    bench = make(Averaging(workers=1, every=2), batches=2, epochs=2)
    a = bench.peer("0")
    a.answer(rounds(a)[0], 1, 0, 0, 0)
    bench.server.save()
    bench.crash()
    bench.told.clear()
    bench.restart()
    assert [told["epoch"] for told in bench.decisions.untested] == [0]
    a.hello()
    assert a.task() is None
    bench.chief(Chief(tested=0))
    assert rounds(a)[0].task.epoch == 1
    assert bench.decisions.untested == []


def test_a_server_that_was_finished_still_is(make: Make) -> None:
    bench = make(Averaging(workers=1, every="end"))
    a = bench.peer("0")
    (one,) = rounds(a)
    assert one.task.last is None
    assert a.answer(one, 1, 0, 0, 0) == [Finished(why="all epochs done")]
    bench.server.save()
    bench.crash()
    bench.restart(again=False)
    a.hello()
    assert a.more + a.heard()[0] == [Finished(why="all epochs done")]
    assert [told["epoch"] for told in bench.decisions.untested] == [1]


def test_an_interruption_keeps_the_round_as_it_is(make: Make) -> None:
    bench = make(Averaging(workers=2, every=2), batches=8)
    a, b = bench.peer("0"), bench.peer("1")
    first = rounds(a, b)
    a.answer(first[0], 2, 0, 0, 0)
    bench.chief(Chief(stop=INTERRUPTED))
    assert a.heard()[0] == [Finished(why=INTERRUPTED, again=True)]
    a.leave(), b.leave()
    assert bench.weights() == [0, 0, 0, 0]
    bench.chief(Chief(keep=True))
    bench.crash()
    bench.restart(again=False)
    a.pid = b.pid = 2
    a.hello(), b.hello()
    assert a.task() is None
    (one,) = rounds(b)
    assert one.task == first[1].task
    b.answer(one, 0, 2, 0, 0)
    assert bench.weights() == [-1, -1, 0, 0]


def test_a_worker_in_the_middle_of_its_task_is_not_given_it_again(make: Make) -> None:
    bench = make(Averaging(workers=2, every=2), batches=8)
    a, b = bench.peer("0"), bench.peer("1")
    first = rounds(a, b)
    bench.server.save()
    bench.crash()
    bench.restart()
    a.busy = first[0].task.number
    a.hello()
    assert a.task() is None
    b.hello()  # this one has lost its task, and gets it once more
    assert rounds(b)[0].task == first[1].task
    a.answer(first[0], 1, 0, 0, 0)
    b.answer(first[1], 1, 0, 0, 0)
    assert bench.weights() == [-1, 0, 0, 0]


def test_the_end_is_kept_before_anybody_leaves(make: Make) -> None:
    bench = make(Averaging(workers=1, every="end"))
    a = bench.peer("0")
    a.answer(rounds(a)[0], 1, 0, 0, 0)
    bench.crash()
    bench.restart()
    assert bench.decisions.finished == "all epochs done" and bench.weights() == [-1, 0, 0, 0]


def test_a_unit_goes_on_with_a_worker_that_outlived_its_server(make: Make) -> None:
    bench = make(Downpour(workers=2), batches=2, epochs=1)
    a, b = bench.peer("0"), bench.peer("1")
    a.ask(Ask()), b.ask(Ask())
    bench.server.save()
    bench.crash()
    bench.restart()
    a.hello()
    assert a.ask(Ask(done=0))[0] == []
    b.pid = 7  # another process by the same name: what the first one had is lost
    b.hello()
    assert a.heard()[0] == [Unit(task=Task(number=1, first=1, last=2))]


def test_a_unit_whose_end_the_server_forgot_is_done_again(make: Make) -> None:
    bench = make(Downpour(workers=1), batches=2, epochs=1)
    a = bench.peer("0")
    a.ask(Ask())
    a.push(0, 1, 0, 0, 0, unit=0)
    bench.server.save()
    assert a.ask(Ask(done=0))[0] == [Unit(task=Task(number=1, first=1, last=2))]
    bench.crash()
    bench.restart()
    a.hello()
    a.push(1, 1, 0, 0, 0, unit=1)
    assert a.ask(Ask(done=1))[0] == [Unit(task=Task(number=1, first=1, last=2))]  # which nobody has been given, as far as it knows
    a.push(2, 1, 0, 0, 0, unit=1)
    assert a.ask(Ask(done=1))[0] == [Finished(why="all epochs done")]
    assert bench.said("epoch") == [0]


class Sender:
    """A worker of downpour that keeps what is not safe, as line.py does; its pushes are numbered over all workers by their places in w."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.peer = bench.peer(name)
        self.next = self.peer.ask(Fetch())[0] and 0
        self.unsafe: list[tuple[int, int]] = []  # number, place
        self.safe: list[int] = []  # places

    def values(self, place: int) -> list[float]:
        return [float(i == place) for i in range(PLACES)]

    def push(self, place: int, *, heard: bool) -> None:
        self.unsafe.append((self.next, place))
        self.next += 1
        self._send(*self.unsafe[-1], heard=heard)

    def _send(self, number: int, place: int, *, heard: bool = True) -> None:
        (taken,) = self.peer.push(number, *self.values(place))
        assert isinstance(taken, Taken) and not taken.dropped
        if heard:
            self._kept(taken.kept)

    def _kept(self, kept: int) -> None:
        self.safe += [place for number, place in self.unsafe if number <= kept]
        self.unsafe = [(number, place) for number, place in self.unsafe if number > kept]

    def call_again(self) -> None:
        self._kept(self.peer.hello().kept)
        for number, place in list(self.unsafe):
            self._send(number, place)

    def die(self) -> None:
        """And another takes its name."""
        self.peer.leave()
        self.peer.pid += 1
        self.unsafe.clear()
        self.next = self.peer.hello().next


PLACES = 48
STORY = st.lists(
    st.tuples(st.sampled_from(["push", "push", "push", "unheard", "again", "save", "crash", "dies", "time"]), st.integers(0, 1)),
    min_size=4,
    max_size=PLACES,
)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(STORY)
def test_what_was_acknowledged_is_applied_once_whatever_is_killed(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("s"), plan(Downpour(workers=2, ageing=0.0), shapes={"w": (PLACES,)}, batches=100, epochs=1))
    try:
        senders = [Sender(bench, "0"), Sender(bench, "1")]
        pushed = 0
        for what, who in story:
            sender = senders[who]
            if what in ("push", "unheard"):
                sender.push(pushed, heard=what == "push")
                pushed += 1
            elif what == "again":  # its line breaks
                sender.call_again()
            elif what == "save":
                bench.server.save()
            elif what == "time":
                bench.turn(SNAPSHOT_SECONDS)
            elif what == "dies":
                sender.die()
            else:
                bench.crash()
                bench.restart()
                for one in senders:
                    one.call_again()
        counts = [-value for value in bench.weights()]
        assert set(counts) <= {0, 1}, "applied twice"
        for sender in senders:
            assert all(counts[place] == 1 for place in sender.safe), "acknowledged, and lost"
            assert all(counts[place] == 1 for _, place in sender.unsafe), "pushed by one who lives, and lost"
    finally:
        bench.close()
