"""Who does which batches: whatever is given, lost, finished twice or forgotten by a restart, every batch of every epoch is done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.apart.cut import cut
from laminar.parallel.apart.work import Rounds, Task, Units
from laminar.train.shares import Speed

WORKERS = "abc"


def reloaded(units: Units) -> Units:
    return msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(units, str_keys=True))), Units, str_keys=True)


@dataclass
class Story:
    """Workers that are given units, and a server that may go back to an older state of its own."""

    units: Units
    at: dict[str, Task] = field(default_factory=dict)  # what each worker is busy with
    place: dict[str, int] = field(default_factory=dict)
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    saved: tuple[Units, dict[tuple[int, int], int], list[int]] | None = None

    def ask(self, who: str) -> None:
        if who not in self.at:
            self.told(self.units.reclaim(who))  # who asks has none
            if (task := self.units.give(who, 0.0)) is not None:
                self.at[who], self.place[who] = task, task.first

    def push(self, who: str, batches: int) -> None:
        """The worker has done so many more, and the server has heard of them."""
        if who in self.at:
            task, first = self.at[who], self.place[who]
            assert task.last is not None
            last = min(first + batches, task.last)
            for batch in range(first, last):
                self.done[task.epoch, batch] = self.done.get((task.epoch, batch), 0) + 1
            self.units.advance(task.number, who, last - first)
            self.place[who] = last

    def finish(self, who: str) -> None:
        if who in self.at:
            self.push(who, 1000)
            self.told(self.units.finish(self.at.pop(who).number))

    def lose(self, who: str, *, dead: bool) -> None:
        self.told(self.units.lose(who))
        if dead:
            self.at.pop(who, None)  # else it was only taken for lost, and goes on

    def save(self) -> None:
        self.saved = reloaded(self.units), dict(self.done), list(self.epochs)

    def restart(self) -> None:
        """What came after the snapshot never was, but for workers: they push again what is not in it, and go on."""
        if self.saved is not None:
            self.units, self.epochs = reloaded(self.saved[0]), list(self.saved[2])
            for who, task in self.at.items():  # pushed again
                for batch in range(task.first, self.place[who]):
                    self.saved[1][task.epoch, batch] = self.saved[1].get((task.epoch, batch), 0) + 1
            self.done = dict(self.saved[1])

    def told(self, epochs: list[int]) -> None:
        for epoch in epochs:
            assert epoch == len(self.epochs), "in order, and none twice"
            assert all(self.done.get((epoch, batch)) for batch in range(self.units.batches)), f"epoch {epoch} is not done"
            self.epochs.append(epoch)

    def end(self) -> None:
        for who in list(self.at):
            self.finish(who)
        for _ in range(10_000):
            if self.units.finished:
                break
            for who in WORKERS:
                self.ask(who)
                self.finish(who)
        assert self.units.finished and self.epochs == list(range(self.units.epochs))
        assert set(self.done) == {(e, b) for e in range(self.units.epochs) for b in range(self.units.batches)}
        assert self.units.done >= self.units.total


EVENTS = st.tuples(st.sampled_from(["ask", "push", "push", "finish", "dead", "silent", "save", "restart"]), st.sampled_from(WORKERS))


@settings(derandomize=True, max_examples=120, deadline=None)
@given(
    st.integers(1, 7), st.integers(1, 3), st.integers(1, 4), st.integers(0, 9), st.lists(st.tuples(EVENTS, st.integers(1, 3)), max_size=40)
)
def test_every_batch_is_done_whatever_happens(
    batches: int, epochs: int, size: int, alone: int, events: list[tuple[tuple[str, str], int]]
) -> None:
    story = Story(Units(batches=batches, epochs=epochs, size=size, alone=min(alone, batches * epochs)))
    for (what, who), count in events:
        if what == "ask":
            story.ask(who)
        elif what == "push":
            story.push(who, count)
        elif what == "finish":
            story.finish(who)
        elif what in ("dead", "silent"):
            story.lose(who, dead=what == "dead")
        elif what == "save":
            story.save()
        else:
            story.restart()
        story.units = reloaded(story.units)
    for who in WORKERS:  # someone who works alone and is gone keeps nobody waiting
        if who not in story.at:
            story.told(story.units.lose(who))
    story.end()


def test_without_losses_every_batch_is_done_once() -> None:
    story = Story(Units(batches=5, epochs=2, size=2))
    story.end()
    assert set(story.done.values()) == {1} and story.units.done == 10


def test_only_the_rest_of_a_unit_is_given_again() -> None:
    units = Units(batches=10, epochs=1, size=10)
    task = units.give("a", 0.0)
    assert task == Task(number=0, first=0, last=10)
    units.advance(0, "a", 4)
    units.advance(0, "b", 4)  # has no such unit
    assert units.lose("a") == []
    assert units.give("b", 0.0) == Task(number=0, first=4, last=10)
    units.advance(0, "b", 6)
    assert units.lose("b") == [0]  # it had done all of it, and only did not say so
    assert units.finished


def test_epochs_are_told_in_order_though_a_later_one_ends_first() -> None:
    units = Units(batches=1, epochs=2, size=1)
    units.give("slow", 0.0), units.give("fast", 0.0)
    assert units.finish(1) == []
    assert units.finish(0) == [0, 1]
    assert units.finish(0) == []  # counts no more


def test_one_worker_is_alone_in_the_beginning() -> None:
    units = Units(batches=6, epochs=1, size=1, alone=2)
    assert units.give("a", 0.0) is not None
    assert units.give("b", 0.0) is None
    units.lose("a")
    assert units.give("b", 0.0) == Task(number=0, first=0, last=1)  # the next one takes its place
    assert units.give("a", 0.0) is None
    units.finish(0)
    units.give("b", 0.0)
    units.finish(1)
    assert units.give("a", 0.0) is not None


ROUNDS = st.builds(
    lambda batches, epochs, batch, rest, every, speeds: Rounds(
        batches=batches,
        epochs=epochs,
        batch=batch,
        samples=(batches - 1) * batch + min(rest, batch),
        every=every,
        speeds=None if speeds is None else {str(i): Speed(value=value) for i, value in enumerate(speeds)},
    ),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 6),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.lists(st.floats(0.01, 100), max_size=4)),  # some workers are not known yet
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(ROUNDS, st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_rounds_share_out_every_sample_once(rounds: Rounds, sizes: list[int]) -> None:
    seen: list[tuple[int, int]] = []
    epochs = []
    number = 0
    while not rounds.finished:
        workers = [str(i) for i in range(sizes[number % len(sizes)])]
        for task in rounds.open(number, workers).values():
            assert task.number == number and task.last is not None and task.first < task.last
            for batch in range(task.first, task.last):
                rows = min(rounds.batch, rounds.samples - batch * rounds.batch)
                own = range(rows) if task.rows is None else range(*task.rows)
                assert len(own), "a worker without samples has no task"
                seen += [(task.epoch, batch * rounds.batch + row) for row in own]
        if number % 3 == 1:  # closed without a step, and opened again
            seen = [one for one in seen if one[0] != rounds.position // rounds.batches or one[1] < _start(rounds)]
            rounds.open(number, workers)
            number += 1
            continue
        if (epoch := rounds.close()) is not None:
            epochs.append(epoch)
        rounds = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(rounds))), Rounds)
        number += 1
    assert sorted(seen) == [(epoch, sample) for epoch in range(rounds.epochs) for sample in range(rounds.samples)]
    assert epochs == list(range(rounds.epochs))


def test_a_round_gives_more_to_the_faster_once_their_speeds_are_known() -> None:
    quorum = Rounds(batches=9, epochs=1, batch=90, samples=800, speeds={})
    for samples, wanted in ((45, [(0, 45), (45, 90)]), (45, [(0, 60), (60, 90)]), (60, [(0, 60), (60, 90)])):
        assert [task.rows for task in quorum.open(0, ["0", "1"]).values()] == wanted
        quorum.heard("0", samples=samples, batches=1, seconds=samples / 60)
        quorum.heard("1", samples=90 - samples, batches=1, seconds=(90 - samples) / 30)
    quorum.position = 8  # a batch of 80
    assert [task.rows for task in quorum.open(0, ["0", "1"]).values()] == [(0, 53), (53, 80)]
    assert [task.rows for task in quorum.open(0, ["0", "1", "2"]).values()] == [(0, 35), (35, 53), (53, 80)]  # a new one: as the mean
    averaging = Rounds(batches=20, epochs=1, batch=9, samples=180, every=6, speeds={"0": Speed(value=2.0), "1": Speed(value=1.0)})
    assert [(task.first, task.last) for task in averaging.open(0, ["0", "1"]).values()] == [(0, 8), (8, 12)]
    averaging.close()
    assert [(task.first, task.last) for task in averaging.open(1, ["0", "1"]).values()] == [(12, 17), (17, 20)]


def _start(rounds: Rounds) -> int:
    return rounds.position % rounds.batches * rounds.batch


def test_once_at_the_end_every_worker_has_a_part_of_everything() -> None:
    rounds = Rounds(batches=4, epochs=3, batch=2, samples=8, every=0)
    assert rounds.open(0, ["a", "b"]) == {"a": Task(number=0, part=(0, 2)), "b": Task(number=0, part=(1, 2))}
    assert rounds.close() == 2
    assert rounds.finished


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1), st.data())
def test_every_tensor_lies_on_one_shard_and_no_shard_is_empty(shapes: dict[str, tuple[int, ...]], data: st.DataObject) -> None:
    shards = data.draw(st.integers(1, len(shapes)))
    parts = cut(shapes, shards)
    assert len(parts) == shards and all(parts)
    assert sorted(name for part in parts for name in part) == sorted(shapes)
    order = list(shapes)
    assert all([order.index(name) for name in part] == sorted(order.index(name) for name in part) for part in parts)


def test_shards_are_about_as_large_as_each_other() -> None:
    parts = cut({"a": (100,), "b": (60,), "c": (50,), "d": (10,)}, 2)
    assert parts == [["a", "d"], ["b", "c"]]


def test_there_are_no_more_shards_than_tensors() -> None:
    assert cut({"a": (2,), "b": (3,)}, 3) == [["b"], ["a"]]
