"""The scene of a training in which workers do not march in step: who computes where, and what messages cost; and the pace that comes of
it. Plain numbers. No torch here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from laminar.plan.apart_clock import Clock, Draws, Shared, Thread, What, middle
from laminar.plan.machine import Stragglers


@dataclass(frozen=True)
class Worker:
    seconds: float  # of computing, usually: for a batch; quorum: for its part of one
    node: int = 0


@dataclass(frozen=True)
class Scene:
    """Servers are on the first node, where the chief is, and share its cores with the workers there. So everything that goes from node to
    node goes through the card of the first one, and no other card is ever as busy.

    All that is said of messages and servers is of one shard. A message costs half of its time the one who sends it and half the one who
    receives it; a server is one thread.
    """

    workers: tuple[Worker, ...]
    cores: tuple[int, ...]  # of each node
    push: int = 0  # bytes of a gradient, or of a distance, as it is packed
    parameters: int = 0  # bytes
    push_seconds: float = 0.0  # of processors, from a worker to a server on the same node
    parameters_seconds: float = 0.0  # and back
    word_seconds: float = 0.0  # of a message without bytes
    apply: float = 0.0  # seconds that a server takes for a push, the step of downpour included
    step: float = 0.0  # rounds: seconds for the step that closes one
    bandwidth: float = math.inf  # bytes a second of a card, each way
    latency: float = 0.0
    stragglers: Stragglers = field(default_factory=Stragglers)
    test: float = 0.0  # seconds of one core that the chief takes to test an epoch, on as many cores of the first node as it has


@dataclass(frozen=True)
class Pace:
    """Of a team that trains so. A batch is one of the recipe's size, whoever does it."""

    seconds_per_batch: float  # in the middle of all seeds
    seconds_p95: float  # and near the worst
    staleness: dict[int, float] = field(default_factory=dict)  # share of the gradients that were so many versions old, as servers count
    bytes_per_batch: float = 0.0  # to and from servers
    idle: float = 0.0  # share of the workers' time in which they compute nothing
    late: float = 0.0  # share of the answers that came when their round was closed
    dropped: float = 0.0  # share of the gradients that went into no step

    @property
    def mean_staleness(self) -> float:
        return sum(age * share for age, share in self.staleness.items())


@dataclass
class Tally:
    """Of one seed, from where it has settled."""

    seconds: float = 0.0
    batches: float = 0.0
    computing: float = 0.0  # of all workers
    bytes: float = 0.0
    staleness: Counter[int] = field(default_factory=Counter)
    answers: int = 0
    late: int = 0
    dropped: int = 0


def pace(tallies: Sequence[Tally], workers: int) -> Pace:
    each = [tally.seconds / tally.batches for tally in tallies]
    batches, seconds = sum(t.batches for t in tallies), sum(t.seconds for t in tallies)
    ages: Counter[int] = Counter()
    for tally in tallies:
        ages += tally.staleness
    gradients, answers = sum(ages.values()), sum(t.answers for t in tallies)
    return Pace(
        seconds_per_batch=middle(each, 0.5),
        seconds_p95=middle(each, 0.95),
        staleness={age: count / gradients for age, count in sorted(ages.items())},
        bytes_per_batch=sum(t.bytes for t in tallies) / batches,
        idle=min(1.0, max(0.0, 1.0 - sum(t.computing for t in tallies) / (seconds * workers))) if seconds else 0.0,
        late=sum(t.late for t in tallies) / answers if answers else 0.0,
        dropped=sum(t.dropped for t in tallies) / answers if answers else 0.0,
    )


class Stage:
    """A scene on the clock: what both kinds of training do there."""

    def __init__(self, scene: Scene, servers: int, seed: int) -> None:
        self.scene, self.clock = scene, Clock()
        self.cores = [Shared(self.clock, room) for room in scene.cores]
        self.came, self.went = Shared(self.clock, 1), Shared(self.clock, 1)  # the card of the first node
        self.servers = [Thread(self.cores[0]) for _ in range(servers)]
        self.chief = [Thread(self.cores[0]) for _ in range(scene.cores[0])]
        self.draws = Draws(scene.stragglers, seed, len(scene.workers))
        self.began: dict[int, tuple[float, float, int]] = {}  # workers that compute: since when, for how long alone, how many batches
        self.counts_from = math.inf
        self.tally = Tally()

    def compute(self, worker: int, batches: int, then: What) -> None:
        who = self.scene.workers[worker]
        seconds = who.seconds * self.draws.steps(worker, batches)
        self.began[worker] = (self.clock.now, seconds, batches)
        self.cores[who.node].add(seconds, then, worker)

    def computed(self, worker: int) -> int:
        """The batches that it was."""
        since, _, batches = self.began.pop(worker)
        self.tally.computing += max(0.0, self.clock.now - max(since, self.counts_from))
        return batches

    def under_way(self) -> float:
        """Batches that are being computed, as far as they have come."""
        now = self.clock.now
        return sum(batches * min(1.0, (now - since) / seconds) for since, seconds, batches in self.began.values() if seconds)

    def count_from_here(self) -> None:
        self.counts_from, self.tally = self.clock.now, Tally()

    def count_until_here(self) -> None:
        self.clock.over = True
        for worker in list(self.began):
            self.computed(worker)
        self.tally.seconds = self.clock.now - self.counts_from

    def send(self, worker: int, seconds: float, size: int, then: What, about: object) -> None:
        """From a worker: its own half, and the way to the first node."""

        def packed(_: object) -> None:
            self._travel(self.came, worker, size, then, about)

        self.cores[self.scene.workers[worker].node].add(seconds / 2, packed, None)

    def reply(self, worker: int, seconds: float, size: int, then: What, about: object) -> None:
        """To a worker: the way from the first node, and its own half."""

        def came(_: object) -> None:
            self.cores[self.scene.workers[worker].node].add(seconds / 2, then, about)

        self._travel(self.went, worker, size, came, None)

    def _travel(self, card: Shared, worker: int, size: int, then: What, about: object) -> None:
        self.tally.bytes += size
        if self.scene.workers[worker].node == 0:
            then(about)
        elif size and math.isfinite(self.scene.bandwidth):
            card.add(size / self.scene.bandwidth, lambda _: self.clock.after(self.scene.latency, then, about), None)
        else:
            self.clock.after(self.scene.latency, then, about)
