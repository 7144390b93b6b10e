"""What averaging, downpour and quorum take: a scene of workers and servers from what was measured, and its pace. No torch here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from laminar.plan import apart
from laminar.plan.apart import Pace, Scene, Worker
from laminar.plan.known import Known
from laminar.plan.machine import Stragglers
from laminar.plan.places import Places
from laminar.plan.team_memory import FLOAT, worker_apart
from laminar.train.strategies import Averaging, Downpour, ManySpec, Quorum


@dataclass(frozen=True)
class Paced:
    """A training that has no steps which all make at once."""

    seconds: float  # for a batch
    memory: tuple[int, ...]  # of each worker; of a grid, of one
    bytes: int
    staleness: float = 0.0
    used: float = 1.0  # share of the gradients that go into a step
    idle: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    together: float = 1.0  # grid: answers that a version is made of
    beat: float = 1.0  # batches that are behind the team from one meeting of its workers to the next


def averaging(known: Known, places: Places, how: Averaging, batch: int, threads: int) -> Paced:
    """Workers make whole steps of their own, the optimizer's included."""
    job = known.job()
    scene, each = _scene(known, places, how, batch, threads, shards=1, steps=True)
    batches = max(1, job.samples // batch)
    every = how.every if isinstance(how.every, int) else max(1, batches * job.epochs // how.workers)
    pace = apart.averaging(scene, every=every, epoch=batches if isinstance(how.every, int) else None, measured=how.shares == "measured")
    whole = every * how.workers
    rounds = math.ceil(batches / whole) if isinstance(how.every, int) else 1  # of an epoch, the last of which is shorter
    return _paced(known, places, how, pace, each, batch, beat=batches / rounds if isinstance(how.every, int) else whole)


def downpour(known: Known, places: Places, how: Downpour, batch: int, threads: int) -> Paced:
    job = known.job()
    scene, each = _scene(known, places, how, batch, threads, shards=how.shards, steps=True)
    batches = max(1, job.samples // batch)
    unit = apart.unit_of(batches, how.workers, how.n_push)
    pace = apart.downpour(
        scene,
        n_push=how.n_push,
        n_fetch=how.n_fetch,
        shards=how.shards,
        overlap=how.overlap,
        max_staleness=how.max_staleness,
        unit=unit,
        epoch=None if how.evaluator else batches,
    )
    far = sum(node != places.node[0] for node in places.node)
    last = far * _unit_on_its_way(scene, how, unit) / (job.epochs * batches)
    return _paced(known, places, how, replace(pace, seconds_per_batch=pace.seconds_per_batch + last), each, batch, beat=how.n_push)


def _unit_on_its_way(scene: Scene, how: Downpour, unit: int) -> float:
    """Seconds that a unit of a far worker is on the link. The training is not over before the last of every worker is there, however much
    the others do meanwhile: over a link that is slow enough, that is all that it waits for."""
    pushes, fetches = math.ceil(unit / how.n_push), unit / how.n_fetch
    one = how.shards / scene.bandwidth
    return (pushes * scene.push + fetches * scene.parameters) * one + 2 * pushes * scene.latency


def quorum(known: Known, places: Places, how: Quorum, batch: int, threads: int) -> Paced:
    """A worker has its part of a batch, and the server makes the step."""
    rows = math.ceil(batch / how.workers)
    scene, each = _scene(known, places, how, rows, threads, shards=1, steps=False)
    pace = apart.quorum(scene, share=how.quorum, deadline=how.deadline, minimum=how.minimum, late=how.late, max_staleness=how.max_staleness)
    return _paced(known, places, how, pace, each, rows)


def _scene(
    known: Known, places: Places, how: ManySpec, rows: int, threads: int, *, shards: int, steps: bool
) -> tuple[Scene, Callable[[int], float]]:
    """`steps`: workers make steps of their own. Also the seconds that a worker computes."""
    job, facts, machine = known.job(), places.facts, places.machine
    whole, size = known.whole(rows, "module", threads), FLOAT * job.parameters
    packing = known.packing(how.compression)  # by the one who sends; a server has one packet at a time to unpack
    sent = packing.bytes
    own = whole.seconds + rows * job.gather + job.loop + (job.step(size) if steps else 0.0)

    def each(worker: int) -> float:
        return own * places.slow(worker)

    used = sorted(set(places.node))
    number = {node: i for i, node in enumerate(used)}
    spread = max(facts.spread, machine.stragglers.spread)
    scene = Scene(
        workers=tuple(Worker(each(worker), number[places.node[worker]]) for worker in range(how.workers)),
        cores=tuple(places.room(node) for node in used),
        push=math.ceil(sent / shards),
        parameters=math.ceil(size / shards),
        push_seconds=facts.wire(sent / shards) + (packing.encode + packing.decode) / shards,
        parameters_seconds=facts.wire(size / shards),
        word_seconds=facts.wire(0),
        apply=facts.apply(size / shards) + (job.step(size / shards) if isinstance(how, Downpour) else 0.0),
        step=job.step(size / shards) if not steps else 0.0,
        bandwidth=machine.link.bandwidth,
        latency=machine.link.latency,
        stragglers=Stragglers(spread, machine.stragglers.slow_share, machine.stragglers.slow_factor),
        test=job.test * job.test_samples / machine.nodes[used[0]].speed,
    )
    return scene, each


def _paced(known: Known, places: Places, how: ManySpec, pace: Pace, each: Callable[[int], float], rows: int, *, beat: float = 1.0) -> Paced:
    job, first = known.job(), places.node[0]
    memory = tuple(worker_apart(how, job, places.facts, rows, far=node != first) for node in places.node)
    computing = sum(each(worker) for worker in range(how.workers)) / how.workers / how.workers
    spent = {"computing": min(computing, pace.seconds_per_batch), "waiting": max(0.0, pace.seconds_per_batch - computing)}
    return Paced(
        seconds=pace.seconds_per_batch,
        memory=memory,
        bytes=round(pace.bytes_per_batch),
        staleness=pace.mean_staleness,
        used=1.0 - pace.dropped,
        idle=pace.idle,
        spent=spent,
        beat=beat,
    )
