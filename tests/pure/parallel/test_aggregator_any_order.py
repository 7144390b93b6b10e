"""The aggregator under any order of arrivals, losses, repeats, joins, leaves and ticks.

Hypothesis draws the rules and a story; a ledger beside the aggregator knows the fate of every gradient. A second aggregator goes through
the same story and is saved as JSON and loaded again after every event: it must do the same.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import (
    Action,
    Apply,
    CloseRound,
    Drop,
    Event,
    Fetch,
    Finish,
    Gradient,
    Hold,
    Joined,
    Left,
    OpenRound,
    Repeat,
    Stall,
    Tick,
    Welcome,
)
from laminar.parallel.aggregate.rules import Rules, sync
from laminar.parallel.aggregate.weights import age, share

WORKERS = 4


@dataclass
class Worker:
    """What it last heard, and the number of its next gradient."""

    name: str
    base: int = 0
    round: int | None = None
    sequence: int = 0


@dataclass
class Story:
    rules: Rules
    now: float = 0.0
    network: list[Gradient] = field(default_factory=list)
    delivered: set[str] = field(default_factory=set)
    fate: dict[str, str] = field(default_factory=dict)  # payload -> held, applied, or why it was dropped
    steps: int = 0
    makers: list[set[str]] = field(default_factory=lambda: [set()])  # of each version
    closed: list[CloseRound] = field(default_factory=list)
    open: OpenRound | None = None
    stalled: str = ""
    heard: float = 0.0  # the time of the last event
    elapsed: float = 0.0  # without the jumps back
    opened: float = 0.0

    def __post_init__(self) -> None:
        self.one, self.other = Aggregator(self.rules), Aggregator(self.rules)
        self.workers = [Worker(f"w{i}") for i in range(WORKERS)]

    # What happens

    def happen(self, event: Event) -> list[Action]:
        self.now = event.now
        self.elapsed += max(0.0, event.now - self.heard)
        self.heard = event.now
        due = None if self.open is None or self.open.deadline is None else self.opened + (self.rules.deadline or 0)
        rounds = len(self.closed)
        actions = self.one.on(event)
        self.other = Aggregator.load(self.rules, json.loads(json.dumps(self.other.state())))
        assert self.other.on(event) == actions
        assert self.other.state() == self.one.state()
        self.check(event, actions)
        assert due is None or self.elapsed <= due + 1e-6 or len(self.closed) > rounds, "open beyond its deadline"
        return actions

    def join(self, who: int) -> None:
        (welcome,) = [a for a in self.happen(Joined(f"w{who}", self.now)) if isinstance(a, Welcome)]
        worker = self.workers[who]
        assert all(
            sent.sequence < welcome.sequence for sent in self.network if sent.payload in self.delivered and sent.worker == worker.name
        )
        worker.base, worker.round = welcome.version, welcome.round
        worker.sequence = max(worker.sequence, welcome.sequence)

    def fetch(self, who: int) -> None:
        worker = self.workers[who]
        worker.base, worker.round = self.one.version, self.open.round if self.open else worker.round

    def send(self, who: int, work: float = 1.0) -> Gradient:
        """Onto the network, where it may stay for ever."""
        worker = self.workers[who]
        made = Gradient(worker.name, worker.sequence, worker.base, f"{worker.name}/{worker.sequence}", 0.0, worker.round, work)
        worker.sequence += 1
        self.network.append(made)
        return made

    def deliver(self, sent: Gradient) -> list[Action]:
        event = Gradient(sent.worker, sent.sequence, sent.base, sent.payload, self.now, sent.round, sent.work)
        known = sent.payload in self.delivered
        before = self.fate.get(sent.payload)
        actions = self.happen(event)
        if known:
            assert Repeat(sent.worker, sent.sequence) in actions
            assert before != "applied" or self.fate[sent.payload] == "applied"
        elif not any(isinstance(a, Drop) and a.reason == "unknown" for a in actions):
            self.delivered.add(sent.payload)
        return actions

    # What must be true

    def check(self, event: Event, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Hold(payload):
                    assert payload not in self.fate
                    self.fate[payload] = "held"
                case Drop(payload, _, "unknown"):
                    assert payload not in self.fate  # not taken: its worker may join, and send it again
                case Drop(payload, _, reason):
                    assert self.fate.get(payload, "held") == "held", "dropped once, and nothing that was applied"
                    assert reason == "too few" or self.fate.get(payload) != "held", "what was taken is not dropped before the end"
                    self.fate[payload] = reason
                case Apply(parts, version):
                    self.steps += 1
                    assert version == self.steps
                    self.check_weights(action)
                    self.check_ages(action)
                    for part in parts:
                        assert self.fate.get(part.payload, "held") == "held"
                        self.fate[part.payload] = "applied"
                case OpenRound(number, version, deadline, wanted):
                    assert self.open is None and number == len(self.closed) and version == self.steps
                    assert wanted >= 1 and (deadline is None or deadline > event.now)
                    self.open, self.opened = action, self.elapsed
                case CloseRound(number, version):
                    assert self.open is not None and self.open.round == number and version == self.steps
                    assert not set(action.answered) & set(action.missing)
                    self.closed.append(action)
                    self.open = None
                case Stall(why):
                    assert why != self.stalled, "said once"
                case Fetch(_, version):
                    assert version == self.steps
        assert self.one.version == self.steps
        self.check_waiting(event)
        self.stalled = self.one.stalled
        self.check_figures()

    def check_weights(self, step: Apply) -> None:
        among = None if self.rules.among is None else max(self.rules.among, len(self.one.workers))
        ageing = self.rules.ageing
        ages = [age(part.staleness, ageing) if among is None else share(part.staleness, ageing, among) for part in step.parts]
        assert step.parts and all(0 < part.weight <= 1 for part in step.parts)
        assert math.isclose(sum(part.weight for part in step.parts), max(ages), rel_tol=1e-9)
        oldest = math.inf if self.rules.max_staleness is None else self.rules.max_staleness
        assert all(0 <= part.staleness <= oldest for part in step.parts)
        assert len(step.parts) >= self.rules.minimum
        assert [(p.worker, int(p.payload.split("/")[1])) for p in step.parts] == sorted(
            (p.worker, int(p.payload.split("/")[1])) for p in step.parts
        )

    def check_ages(self, step: Apply) -> None:
        """Versions since its base; but for those that its worker made alone, where it knows them. What comes in another order than it was
        sent may seem older, never younger."""
        bases = {sent.payload: sent.base for sent in self.network}
        for part in step.parts:
            since = self.makers[bases[part.payload] + 1 :]
            own = since.count({part.worker}) if self.rules.own != "ages" else 0
            assert len(since) - own <= part.staleness <= len(since)
        self.makers.append({part.worker for part in step.parts})

    def check_waiting(self, event: Event) -> None:
        """Nothing waits beyond its deadline, and nothing waits for ever without saying so."""
        wakes = self.one.wakes
        assert wakes is None or wakes > event.now
        if self.rules.kind == "rounds" and self.rules.deadline is not None:
            assert (self.open is None) == (wakes is None)
        if not self.one.workers and not isinstance(event, Finish):
            assert self.one.stalled == "no workers" or self.one.state()["finished"]

    def check_figures(self) -> None:
        figures = self.one.statistics
        fates = list(self.fate.values())
        assert figures.applied == fates.count("applied") and figures.steps == self.steps
        assert figures.accepted == fates.count("applied") + fates.count("held") + fates.count("too few")
        assert figures.received == figures.accepted + figures.repeated + sum(
            count for reason, count in figures.dropped.items() if reason != "too few"
        )
        assert sum(figures.staleness.values()) == figures.accepted
        assert figures.rounds == len(self.closed) and figures.stepless == sum(not c.stepped for c in self.closed)


RULES = st.one_of(
    st.builds(
        Rules,
        kind=st.just("rounds"),
        quorum=st.sampled_from([1.0, 0.8, 0.75, 0.5, 0.1]),
        minimum=st.integers(1, 3),
        start=st.integers(1, 3),
        late=st.sampled_from(["drop", "age"]),
        deadline=st.sampled_from([None, 1.0, 5.0]),
        ageing=st.sampled_from([0.0, 0.5, 1.0, 8.0]),
        max_staleness=st.sampled_from([None, 0, 1, 3]),
    ),
    st.builds(
        Rules,
        kind=st.just("rounds"),
        answers=st.integers(3, 6),
        quorum=st.sampled_from([1.0, 0.5]),
        minimum=st.integers(1, 3),
        late=st.sampled_from(["drop", "age"]),
        deadline=st.sampled_from([1.0, 5.0]),
        max_staleness=st.sampled_from([None, 2]),
    ),
    st.builds(
        Rules,
        kind=st.just("arrival"),
        buffer=st.integers(1, 4),
        among=st.sampled_from([None, 1, 3, 9]),
        own=st.sampled_from(["ages", "ahead", "known"]),
        deadline=st.sampled_from([None, 2.0]),
        ageing=st.sampled_from([0.0, 0.5, 1.0]),
        max_staleness=st.sampled_from([None, 0, 2]),
    ),
)

WHO = st.integers(0, WORKERS - 1)
STEP = st.one_of(
    st.tuples(st.just("join"), WHO),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("work"), WHO),  # fetch, send and deliver: what mostly happens
    st.tuples(st.just("work"), WHO),
    st.tuples(st.just("fetch"), WHO),
    st.tuples(st.just("send"), WHO),
    st.tuples(st.just("deliver"), st.integers(0, 50)),
    st.tuples(st.just("wait"), st.sampled_from([0.4, 2.0])),  # and nobody ticks
    st.tuples(st.just("tick"), st.sampled_from([0.0, 0.3, 1.0, 5.0, -2.0])),  # also a clock that goes back
)

# Most stories begin with workers, or little would happen in them.
STEPS = st.builds(
    lambda crew, steps: [("join", who) for who in range(crew)] + steps,
    st.sampled_from([0, 2, 3, WORKERS]),
    st.lists(STEP, min_size=5, max_size=40),
)


def play(rules: Rules, steps: list[tuple[str, Any]]) -> Story:
    story = Story(rules)
    for what, value in steps:
        match what:
            case "join":
                story.join(value)
            case "leave":
                story.happen(Left(f"w{value}", story.now))
            case "fetch":
                story.fetch(value)
            case "send":
                story.send(value, work=1.0 + value)
            case "work":
                story.fetch(value)
                story.deliver(story.send(value, work=1.0 + value))
            case "deliver" if story.network:
                story.deliver(story.network[value % len(story.network)])
            case "wait":
                story.now += value
            case "tick":
                story.happen(Tick(story.now + value))
    return story


@settings(derandomize=True, max_examples=150, deadline=None)
@given(RULES, STEPS)
def test_every_gradient_has_one_fate(rules: Rules, steps: list[tuple[str, Any]]) -> None:
    story = play(rules, steps)
    story.happen(Finish(story.now + 1))
    assert "held" not in story.fate.values(), "the end leaves nothing undecided"
    for sent in story.network:  # everything, again, after the end
        story.deliver(sent)
    assert all(sent.payload in story.fate for sent in story.network if sent.payload in story.delivered)
    assert story.one.on(Tick(story.now + 1000)) == []


@settings(derandomize=True, max_examples=200, deadline=None)
@given(RULES, STEPS, st.integers(0, WORKERS), st.integers(0, 1))
def test_it_always_goes_on(rules: Rules, steps: list[tuple[str, Any]], survivors: int, newcomers: int) -> None:
    """From wherever a story leads, and whoever dies: those who are left and answer when asked make steps, or it says that they are too few.

    Nobody ticks: what only a deadline would end, counts as hanging.
    """
    story = play(rules, steps)
    there = sorted(int(name[1:]) for name in story.one.workers)
    for who in there[survivors:]:
        story.happen(Left(f"w{who}", story.now))
    for who in [who for who in range(WORKERS) if who not in there[:survivors]][:newcomers]:
        story.join(who)
    story.happen(Tick(story.now))
    alive = [int(name[1:]) for name in story.one.workers]
    before = story.steps
    for _ in range(1 + max(rules.buffer, rules.minimum, rules.answers or 1)):
        for who in alive:
            if rules.kind == "arrival" or rules.answers is not None or f"w{who}" in story.one.awaited:  # nobody else has a task
                story.fetch(who)
                story.deliver(story.send(who))
    if story.steps == before:
        assert story.one.stalled == "too few workers" if alive else story.one.stalled == "no workers"
        assert len(alive) < max(rules.minimum, rules.start)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(RULES, STEPS)
def test_no_round_outlives_its_deadline(rules: Rules, steps: list[tuple[str, Any]]) -> None:
    story = play(rules, steps)
    if story.one.wakes is not None:
        rounds, held = len(story.closed), story.one.state()["held"]
        story.happen(Tick(story.one.wakes))
        assert len(story.closed) == rounds + (rules.kind == "rounds")
        assert rules.kind == "rounds" or (held and not story.one.state()["held"])


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.permutations(range(3)), min_size=1, max_size=8), st.data())
def test_the_order_of_arrival_changes_no_bit_of_a_synchronous_run(orders: list[list[int]], data: st.DataObject) -> None:
    """Also with every message sent up to three times."""
    applied = []
    for shuffle in (False, True):
        story = Story(sync(start=3))
        for who in range(3):
            story.join(who)
        for order in orders:
            sent = []
            for who in range(3):
                story.fetch(who)
                sent.append(story.send(who))
            for who in order if shuffle else range(3):
                for _ in range(data.draw(st.integers(1, 3)) if shuffle else 1):
                    applied.extend([(shuffle, a) for a in story.deliver(sent[who]) if isinstance(a, Apply)])
    assert [a for shuffled, a in applied if shuffled] == [a for shuffled, a in applied if not shuffled]
    assert len(applied) == 2 * len(orders)


def rounds_in(rules: Rules, seconds: list[float], until: float) -> Story:
    """Workers that need so many seconds for a gradient, on virtual time; each fetches when it has answered."""
    story = Story(rules)
    for who in range(len(seconds)):
        story.join(who)
    for who in range(len(seconds)):
        story.fetch(who)
    due = list(seconds)
    free: set[int] = set()  # answered, and waits for the next round
    while (now := min([d for who, d in enumerate(due) if who not in free], default=until)) < until:
        who = min((w for w in range(len(seconds)) if w not in free), key=lambda w: due[w])
        story.now = now
        story.deliver(story.send(who))
        free.add(who)
        for idle in sorted(free):
            worker = story.workers[idle]
            if story.open is not None and worker.round != story.open.round:
                story.fetch(idle)
                due[idle] = now + seconds[idle]
                free.discard(idle)
    return story


def test_a_quorum_does_not_wait_for_a_slow_worker() -> None:
    """One of four is four times slower: 0.75 of them give at least 2.5 times the rounds, and what is late does no harm."""
    speed = [1.0, 1.0, 1.0, 4.0]
    slow = rounds_in(sync(start=4), speed, 200.5)
    assert len(slow.closed) == 50
    for late in ("drop", "age"):
        quick = rounds_in(Rules(kind="rounds", quorum=0.75, start=4, deadline=30.0, late=late), speed, 200.5)
        assert len(quick.closed) >= 2.5 * len(slow.closed)
        assert quick.one.statistics.late > 0


def test_backup_workers_of_chen_2016() -> None:
    """The first 8 of 10 are each step, whatever they are."""
    story = Story(Rules(kind="rounds", quorum=0.8, start=10))
    story.workers = [Worker(f"w{i}") for i in range(10)]
    for who in range(10):
        story.join(who)
    for who in range(10):
        story.fetch(who)
    for who in range(10):
        story.deliver(story.send(who))
    assert story.steps == 1
    assert story.closed[0].missing == ("w8", "w9")
    assert [story.fate["w8/0"], story.fate["w9/0"]] == ["late", "late"]


@pytest.mark.parametrize("buffer", [1, 3])
def test_a_fleet_that_comes_and_goes_loses_nothing(buffer: int) -> None:
    """Downpour: a worker dies every few gradients, one joins, and each gradient that was acknowledged is applied once."""
    story = Story(Rules(kind="arrival", buffer=buffer, max_staleness=20))
    story.join(0)
    story.join(1)
    for turn in range(300):
        who = turn % WORKERS
        if turn % 11 == 0:
            story.happen(Left(f"w{who}", story.now))
        elif turn % 7 == 3:
            story.join(who)
        if f"w{who}" in story.one.workers:
            if turn % 3 == 0:
                story.fetch(who)
            sent = story.send(who)
            for _ in range(1 + turn % 2):
                story.deliver(sent)
    story.happen(Finish(1.0))
    fates = set(story.fate.values())
    assert fates <= {"applied", "stale"} and list(story.fate.values()).count("applied") > 100
