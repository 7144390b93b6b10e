"""The critical path: the tasks that would all have to be faster for a timeline to be shorter. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from laminar.plan.simulate import Timeline
from laminar.plan.tasks import Key, Kind, Ran

Name = TypeVar("Name", bound=str)


def critical_path(timeline: Timeline) -> list[Ran]:
    """From the first task to the one that ends last. Each begins when the one before it ends: it comes after that one, or else had to wait
    for a resource that it held. Of several, the one with the smallest key."""
    if not len(timeline):
        return []
    holders = _holders(timeline)
    place = min(range(len(timeline)), key=lambda i: (-timeline.end[i], timeline.tasks[i].key))
    path = [timeline.ran[place]]
    while True:
        now = path[-1]
        before = _ended(timeline, now.task.after, now.begin) or _ended(timeline, holders[now.task.key], now.begin)
        if before is None:
            return path[::-1]
        path.append(before)


def by_kind(path: Iterable[Ran]) -> dict[Kind, float]:
    """Seconds, most first."""
    return _summed(path, lambda one: one.task.kind)


def by_name(path: Iterable[Ran]) -> dict[str, float]:
    """Seconds, most first."""
    return _summed(path, lambda one: one.task.name)


def _holders(timeline: Timeline) -> dict[Key, list[Key]]:
    """Of each task: those that held its resources before it."""
    last: dict[int, Key] = {}
    found = {}
    for task in timeline.tasks:
        found[task.key] = [last[resource] for resource in task.resources if resource in last]
        last |= dict.fromkeys(task.resources, task.key)
    return found


def _ended(timeline: Timeline, keys: Iterable[Key], then: float) -> Ran | None:
    some = [ran for ran in map(timeline.__getitem__, keys) if ran.end == then]
    return min(some, key=lambda ran: ran.task.key, default=None)


def _summed(path: Iterable[Ran], what: Callable[[Ran], Name]) -> dict[Name, float]:
    spent: dict[Name, float] = {}
    for one in path:
        spent[what(one)] = spent.get(what(one), 0.0) + (one.end - one.begin)
    return dict(sorted(spent.items(), key=lambda item: (-item[1], item[0])))
