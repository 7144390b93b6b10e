"""Simulate: tasks on a clock. No torch here.

The loop of FlexFlow's simulator (Jia et al., MLSys 2019, arXiv 1807.05358): of the tasks that are ready, the one that was ready first is
taken, and begins when all of its resources are free. Tasks that are ready at once are taken by their keys, so there is one answer.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from math import inf

from laminar.plan.tasks import Key, Ran, Task


@dataclass(frozen=True)
class Timeline:
    """What ran when, in the order in which tasks were taken: by the time they were ready, then by key."""

    tasks: Sequence[Task]
    ready: Sequence[float]
    begin: Sequence[float]
    end: Sequence[float]

    @cached_property
    def seconds(self) -> float:
        """Until the last one ends."""
        return max(self.end, default=0.0)

    @cached_property
    def ran(self) -> list[Ran]:
        return list(map(Ran, self.tasks, self.ready, self.begin, self.end))

    def __getitem__(self, key: Key) -> Ran:
        return self.ran[self._places[key]]

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self.tasks)

    def busy(self, resource: int) -> float:
        """Seconds in which something held it."""
        return sum(task.seconds for task in self.tasks if resource in task.resources)

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {task.key: place for place, task in enumerate(self.tasks)}


def simulate(tasks: Iterable[Task]) -> Timeline:
    """ValueError: two have the same key, one comes after something that is not there, or some wait for each other."""
    given = list(tasks)
    keys, left, then = _linked(given)
    seconds, resources = [task.seconds for task in given], [task.resources for task in given]
    ready, begin, end = [0.0] * len(given), [0.0] * len(given), [0.0] * len(given)
    free = {resource: 0.0 for some in resources for resource in some}
    order: list[int] = []
    # Those that are ready at the same time wait together: equal times are common, and numbers are compared faster than keys.
    waiting = {0.0: [i for i, count in enumerate(left) if not count]}
    heap = [0.0]
    while heap:
        now = heappop(heap)
        batch = waiting.pop(now)
        if len(batch) > 1:
            batch.sort(key=keys.__getitem__)
        for i in batch:
            start = now
            for resource in resources[i]:
                if free[resource] > start:
                    start = free[resource]
            begin[i] = start
            end[i] = stop = start + seconds[i]
            for resource in resources[i]:
                free[resource] = stop
            for other in then[i]:
                if stop > ready[other]:
                    ready[other] = stop
                left[other] -= 1
                if left[other]:
                    continue
                when = ready[other]
                if when in waiting:
                    waiting[when].append(other)
                elif when > now:
                    waiting[when] = [other]
                    heappush(heap, when)
                else:  # this one took no time: others that are ready now may have a later key
                    insort(batch, other, batch.index(i) + 1, key=keys.__getitem__)
        order += batch
    if len(order) < len(given):
        raise stuck([key for key, count in zip(keys, left, strict=True) if count])
    return Timeline(*([values[i] for i in order] for values in (given, ready, begin, end)))  # type: ignore[arg-type]


def _linked(given: Sequence[Task]) -> tuple[list[Key], list[int], list[list[int]]]:
    """Keys; how many tasks each comes after; and which come after it."""
    keys = [task.key for task in given]
    number = {key: i for i, key in enumerate(keys)}
    if len(number) < len(given):
        raise ValueError(f"tasks with the same key: {_some([key for i, key in enumerate(keys) if number[key] != i])}")
    then: list[list[int]] = [[] for _ in given]
    for i, task in enumerate(given):
        if not 0.0 <= task.seconds < inf:
            raise endless(task)
        try:
            for key in task.after:
                then[number[key]].append(i)
        except KeyError:
            raise missing(task, number) from None
    return keys, [len(task.after) for task in given], then


def endless(task: Task) -> ValueError:
    return ValueError(f"task {task.key} takes {task.seconds} seconds")


def missing(task: Task, there: Collection[Key]) -> ValueError:
    return ValueError(f"task {task.key} comes after {_some([key for key in task.after if key not in there])}, which is not there")


def stuck(keys: Collection[Key]) -> ValueError:
    return ValueError(f"{len(keys)} tasks wait for each other, or for some that do: {_some(keys)}")


def _some(keys: Collection[Key]) -> str:
    return ", ".join(map(str, sorted(keys)[:5])) + (" …" if len(keys) > 5 else "")
