"""Step: the tasks of one step of training, with what is needed to say how long it takes and how much memory. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.plan.critical import critical_path
from laminar.plan.memory import peaks
from laminar.plan.simulate import Timeline, simulate
from laminar.plan.tasks import Task


@dataclass
class Step:
    tasks: list[Task] = field(default_factory=list)
    standing: dict[int, int] = field(default_factory=dict)  # bytes that each worker always has
    bytes: int = 0  # handed over by all workers together
    batches: float = 1.0  # of the recipe's size, that are behind the team after it
    staleness: float = 0.0
    names: dict[int, str] = field(default_factory=dict)  # of resources


@dataclass(frozen=True)
class Taken:
    """A step on the clock."""

    seconds: float  # for a batch
    memory: dict[int, int]  # of each worker, at most
    idle: float
    spent: dict[str, float]  # of the critical path, by kind of work
    timeline: Timeline


def take(step: Step, workers: int) -> Taken:
    timeline = simulate(step.tasks)
    most = peaks(timeline, step.standing)
    busy = sum(timeline.busy(resource) for resource in {r for task in step.tasks for r in task.resources if r in _cores(step)})
    cores = len(_cores(step)) or workers
    idle = 1.0 - busy / (timeline.seconds * cores) if timeline.seconds else 0.0
    spent: dict[str, float] = {}
    for ran in critical_path(timeline):
        spent[ran.task.kind] = spent.get(ran.task.kind, 0.0) + (ran.end - ran.begin)
    return Taken(timeline.seconds / step.batches, most, max(0.0, idle), spent, timeline)


def _cores(step: Step) -> set[int]:
    return {resource for resource, name in step.names.items() if name.startswith("worker")}
