"""Team memory: what all processes of a training hold on each node. No torch here.

Workers are not all there is: the chief opens the data and the model, too, and tests; servers hold parameters, the optimizer's numbers and,
for a moment, two copies of their snapshots. They are on the first node. Two times count: while workers train, and when they are gone and
the chief keeps the layer, which takes several copies of the model. Code of libraries is in memory once for all processes of a node.

How many copies of the model's parameters each process has was counted in the executors, and held against the memory of real builds
(benchmarks/plan_memory.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from laminar.core.figures import many
from laminar.core.heap import APART, KEPT
from laminar.plan.facts import JobFacts, MachineFacts
from laminar.plan.places import Places
from laminar.train.splitting import Branches, Mesh, Pipeline
from laminar.train.strategies import AnyStrategy, Averaging, Downpour, ManySpec, Quorum

FLOAT: Final = 4  # bytes
# Copies of all parameters. Of a worker apart: its row, gradients, what it sends (summed up, packed), what it began with or what has come,
# both places of its room, and what a backward pass has for a moment; beside them the slots of an optimizer of its own.
OF_WORKER: Final = 8.5
OF_QUORUM_WORKER: Final = 7.75  # has nothing to begin with
FAR_LESS: Final = 1.0  # of these, where the server is far: a buffer for what comes instead of a room
# Of a server: the row, the sum, the slots; a snapshot is made of two copies of all but the sum.
OF_FAR_CALLER: Final = 2.0  # more for each worker that is far: a message that comes, one that waits to be sent
OF_CHIEF: Final = 1.5  # the model, and what comes from servers one after the other
OF_EVALUATOR: Final = 2.0
WORKING: Final = 25_000_000  # bytes of a process that has opened a job beside all that is counted: threads, first calls of operators
KEEPING: Final = 6.4  # copies of the largest tensor, when the layer is kept: one tensor after the other is compared, packed, written …
EXPORTING: Final = 120_000_000  # … and bytes of what is loaded for that, and for looking into a model that is split


@dataclass(frozen=True)
class Need:
    """Of one node, at its fullest."""

    node: int
    bytes: int
    said: str  # for people: of what it is made


def worker_apart(how: ManySpec, job: JobFacts, facts: MachineFacts, rows: int, *, far: bool) -> int:
    """Bytes of a worker that calls servers."""
    copies = (OF_QUORUM_WORKER if isinstance(how, Quorum) else OF_WORKER) - far * FAR_LESS + (0 if isinstance(how, Quorum) else job.slots)
    return opened(job, facts) + round(copies * FLOAT * job.parameters) + job.kept_per_row * rows


def servers(how: AnyStrategy, job: JobFacts, facts: MachineFacts, far: int) -> list[int]:
    """Bytes of each; `far`: workers on other nodes. Of two shards each has half, more or less."""
    if not isinstance(how, Averaging | Downpour | Quorum):
        return []
    slots = 0 if isinstance(how, Averaging) else job.slots
    held = 0 if isinstance(how, Downpour) else how.workers - 1  # answers, until the last of a round has come
    copies = 2 + slots + 2 * (1 + slots) + held + OF_FAR_CALLER * far
    count = how.shards if isinstance(how, Downpour) else 1
    return [facts.process_bytes + round(copies * FLOAT * job.parameters / count)] * count


def chief(how: AnyStrategy, job: JobFacts, facts: MachineFacts) -> int:
    """Bytes while others train."""
    copies = OF_CHIEF if isinstance(how, Averaging | Downpour | Quorum) else 1.0
    looks = EXPORTING if isinstance(how, Mesh | Pipeline | Branches) else 0
    return opened(job, facts) + looks + round(copies * FLOAT * job.parameters)


def keeping(how: AnyStrategy, job: JobFacts, facts: MachineFacts) -> int:
    """Bytes of the chief at the end. What one process had for training is free then, but as far as it is in small pieces not given back to
    the system (core/heap.py)."""
    size = FLOAT * job.parameters
    largest = max(job.tensors, default=max((size for _, size in job.biggest), default=0))
    freed = min(KEPT, (1 + job.slots) * (sum(one for one in job.tensors if one < APART) if job.tensors else size))
    return opened(job, facts) + EXPORTING + size + round(KEEPING * largest) + (freed if alone(how) else 0)


def opened(job: JobFacts, facts: MachineFacts) -> int:
    """Bytes of a process that has opened the job, but for what is trained. Data of more than half of the memory is not held there."""
    data = (job.samples + job.test_samples) * job.row_bytes
    return facts.process_bytes + WORKING + job.untrained + (data if data <= facts.memory // 2 else 0)


def alone(how: AnyStrategy) -> bool:
    """Does the process that was asked train by itself?"""
    return how.workers == 1 and not getattr(how, "evaluator", False) and not isinstance(how, Averaging | Downpour | Quorum)


def needs(how: AnyStrategy, places: Places, job: JobFacts, workers: Sequence[int]) -> list[Need]:
    """Of each node that has something to do, first node first. `workers`: bytes of each of them."""
    facts, found = places.facts, []
    count = Counter(places.node)
    far = sum(node != places.node[0] for node in places.node)
    for node in sorted(count):
        own = [size for size, where in zip(workers, places.node, strict=True) if where == node]
        parts: dict[str, list[int]] = {"worker": own}
        if node == places.node[0] and not alone(how):
            parts |= {"server": servers(how, job, facts, far), "chief": [chief(how, job, facts)]}
            if getattr(how, "evaluator", False):
                parts["evaluator"] = [opened(job, facts) + round(OF_EVALUATOR * FLOAT * job.parameters)]
        need = Need(node, _together(parts, facts), _said(parts))
        if node == places.node[0] and (end := keeping(how, job, facts)) > need.bytes:
            need = Need(node, end, "one process that keeps the trained layer")
        found.append(need)
    return found


def _together(parts: Mapping[str, Sequence[int]], facts: MachineFacts) -> int:
    every = [size for some in parts.values() for size in some]
    return sum(every) - (len(every) - 1) * facts.library_bytes


def _said(parts: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{many(len(some), what)} of {max(some) / 1e9:.2f} GB" for what, some in parts.items() if some)
