"""What one process takes for a step, and what sync takes: every worker its rows of a batch, then all gradients at once. No torch here."""

from __future__ import annotations

import math
from typing import Final

from laminar.parallel.sync.bucket_sizes import dealt
from laminar.parallel.sync.row_facts import RowFacts, refuse_mixed
from laminar.parallel.sync.sent_bytes import DOUBLE, of_rows, of_step
from laminar.plan.facts import Exchange, Packing
from laminar.plan.known import Known
from laminar.plan.passes import Passes
from laminar.plan.places import Places
from laminar.plan.step import Step
from laminar.plan.tasks import Key, Task
from laminar.plan.team_memory import FLOAT, opened
from laminar.train.compression import NoCompression
from laminar.train.strategies import Sync

TOLD: Final = 2  # numbers that are summed up at every step beside one for each member and each tensor (parallel/sync/group_team.py)
NORMS: Final = 5  # the task of exchanges between gathering and passes
PACKED: Final = 1 << 30  # as a part of a worker's backward pass: behind all others
ROOMS: Final = 3  # rows of all gradients that packing needs: what goes in, what comes out, and what was kept back


def solo_step(known: Known, places: Places, batch: int, threads: int) -> Step:
    """One process gathers its next batch on another thread, so that takes no time, unless it takes longer than all the rest."""
    job = known.job()
    passes, slow = Passes(known, batch, threads), 1.0 / places.machine.nodes[0].speed
    core, size = places.core(0), FLOAT * job.parameters
    rest = passes.whole.seconds + job.loop + job.step(size)
    waits = waiting(rest, batch * job.gather, threads, places.machine.nodes[0].cores)
    tasks = [
        Task((0, 0), waits * slow, (core,), kind="load", name="gather"),
        *passes.tasks(0, core, slow, after=(0, 0), more=job.loop * slow),
        Task((3, 0), job.step(size) * slow, (core,), (passes.last(0),), "optimizer", "optimizer"),
    ]
    standing = {0: opened(job, places.facts) + (2 + job.slots) * size}
    return Step(tasks, standing, names=places.names())


def waiting(rest: float, gathering: float, threads: int, cores: int) -> float:
    """Seconds that a step waits for its samples, where a thread gathers them beside computing, which takes `threads` cores for `rest`
    seconds. Whoever waits helps (data/batches.py), so two work on it then; and no more is done than there are cores."""
    crowded = (rest * threads + gathering) / cores - rest if threads >= cores else 0.0
    return max(0.0, (gathering - rest) / 2, crowded)


def sync_step(known: Known, places: Places, how: Sync, batch: int, threads: int) -> Step:
    """In shared memory there is one copy of the parameters, and each worker updates a part of them. Between nodes everybody has all of it,
    and gradients travel in the executor's own buckets while the rest is computed, of which a measured share costs nothing. Packets are
    made of all of them at once, when all are there, and gathered by everybody after their sizes were summed up; then everybody unpacks
    those of all. PowerSGD has two sums instead, one after the other, and then the one of what is told."""
    job, workers = known.job(), how.workers
    rows = math.ceil(batch / workers)
    size = FLOAT * job.parameters
    in_memory = how.link == "memory" and places.one_node
    last = places.last_of(workers)
    tasks: list[Task] = []
    standing: dict[int, int] = {}
    plain = isinstance(how.compression, NoCompression)
    refuse_mixed(job.rows, how)
    norms = norm_exchanges(job.rows, how)
    of_batches = sum(of_rows(one.bytes // DOUBLE, workers) for one in norms)
    tensors = job.tensors or (size,)
    dealt_out = dealt(tensors) if plain and not in_memory else [list(range(len(tensors)))]
    buckets = [sum(tensors[i] for i in some) for some in dealt_out]
    pieces, passes = len(buckets), Passes(known, rows, threads, dealt_out, buckets)
    for worker in range(workers):
        core, slow = places.core(worker), places.slow(worker) * last
        alone = places.slow(worker)
        before = (rows * job.gather + job.loop) * alone
        tasks.append(Task((0, worker), before, (core,), kind="load", name="gather"))
        tasks += passes.tasks(worker, core, slow, after=(NORMS,) if norms else (0, worker))
        standing[worker] = opened(job, places.facts) + _copies(size, job.slots, workers, in_memory=in_memory)
    everyone = range(workers)
    if norms:  # all wait for each other at each; as one task, since it is the same time wherever in the passes they are
        seconds = sum(places.exchange(one, everyone, how.link) for one in norms)
        loaded: tuple[Key, ...] = tuple((0, worker) for worker in everyone)
        tasks.append(Task((NORMS,), seconds, places.resources(everyone), loaded, "exchange", "statistics of batches"))
    if in_memory and plain:
        standing[0] += size * (1 + job.slots)  # the shared copy, and the optimizer's numbers
        ends = tuple(passes.last(worker) for worker in everyone)
        tasks.append(Task((3,), places.shared_step(size), places.resources(everyone), ends, "exchange", "add up gradients"))
        for worker in everyone:
            seconds = job.step(math.ceil(size / workers)) * places.slow(worker)
            tasks.append(Task((4, worker), seconds, (places.core(worker),), ((3,),), "optimizer", "optimizer"))
        return Step(tasks, standing, 0, names=places.names())
    if plain:
        for piece, part in enumerate(buckets):
            ends = tuple(passes.ready(worker, piece) for worker in everyone)
            seconds = places.exchange(Exchange("sum", "*", part), everyone, how.link)
            hidden = places.facts.hidden if piece < pieces - 1 else 0.0
            # the part that computing must make room for, and the part that only the links are busy with
            tasks.append(Task((3, piece), seconds * (1 - hidden), places.resources(everyone), ends, "exchange", "add up gradients"))
        tasks += [_step(places, worker, job.step(size), tuple((3, piece) for piece in range(pieces))) for worker in everyone]
        sent = of_step(workers, told=_told(workers, len(tensors)), sums=buckets) + of_batches
        return Step(tasks, standing, sent, names=places.names())
    packing = known.packing(how.compression)
    for worker in everyone:
        seconds = packing.encode * places.slow(worker)
        tasks.append(Task((2, worker, PACKED), seconds, (places.core(worker),), (passes.last(worker),), "pack", "pack"))
        standing[worker] += ROOMS * size + workers * packing.bytes
    seconds = sum(places.exchange(one, everyone, how.link) for one in packet_exchanges(packing, workers, len(tensors)))
    ends = tuple((2, worker, PACKED) for worker in everyone)
    tasks.append(Task((3, 0), seconds, places.resources(everyone), ends, "exchange", "exchange packets"))
    for worker in everyone:
        seconds = workers * packing.decode * places.slow(worker)
        tasks.append(Task((3, 1, worker), seconds, (places.core(worker),), ((3, 0),), "pack", "unpack those of all"))
        tasks.append(_step(places, worker, job.step(size), ((3, 1, worker),)))
    packet = 0 if packing.sums else packing.bytes
    over_wire = of_step(workers, told=_told(workers, len(tensors)), sums=packing.sums, packet=packet) + of_batches
    return Step(tasks, standing, packing.bytes * workers if in_memory else over_wire, names=places.names())


def norm_exchanges(rows: RowFacts, how: Sync) -> list[Exchange]:
    """Of a batch: what each worker tells all others at its batch norms, there and back, and at its end (parallel/sync/team_statistics.py).
    Heads before rows are counted with their frames."""
    if not rows.pooled or how.batch_norm != "exact" or how.workers == 1:
        return []
    there = [1 + 2 * channels for channels in rows.channels]
    back = [2 * channels for channels, learned in zip(rows.channels, rows.learned, strict=True) if learned]
    return [Exchange("gather", "*", DOUBLE * numbers) for numbers in (*there, *back, 0)]


def packet_exchanges(packing: Packing, workers: int, tensors: int) -> list[Exchange]:
    """Of a step, in the order in which the executor makes them: each begins when the one before is done."""
    told = DOUBLE * _told(workers, tensors)
    packets = [] if packing.sums else [Exchange("gather", "*", packing.bytes)]
    return [*(Exchange("sum", "*", some) for some in (*packing.sums, told)), *packets]


def _told(workers: int, tensors: int) -> int:
    return TOLD + workers + tensors


def _step(places: Places, worker: int, seconds: float, after: tuple[Key, ...]) -> Task:
    return Task((4, worker), seconds * places.slow(worker), (places.core(worker),), after, "optimizer", "optimizer")


def _copies(size: int, slots: int, workers: int, *, in_memory: bool) -> int:
    """Bytes of a worker's own: its gradients, twice, and the sum of its part; or all that one process has, and buckets of gradients, there
    and on their way."""
    return 2 * size + size // workers if in_memory else (4 + slots) * size
