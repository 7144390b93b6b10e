"""Links: tasks as numbered slots that point at each other and can be linked anew; and the loop of a simulation over them. No torch here.

The same loop as in simulate.py, in a form that is fast where it is run often on nearly the same tasks:

- Tasks that are ready at the same time are taken together, in the order of their keys: equal times are common, and numbers are compared
  faster than keys.
- A task that comes after one task alone is ready with it. One that comes after several watches one of them, and when that one is done looks
  for another that is not; so most of its predecessors never have to tell it anything, all the more as it begins with the one that was the
  last in the run before. (Two watched literals, Moskewicz et al., DAC 2001, does so in clauses.)
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from struct import pack
from typing import NamedTuple, TypeAlias

from laminar.plan.simulate import endless, missing
from laminar.plan.tasks import Key, Task

Node: TypeAlias = tuple[bytes, int, int, float]  # label, slot, resource (-1: none or several), seconds


class Links:
    """Everything is a list by slot."""

    def __init__(self) -> None:
        self.slots: dict[Key, int] = {}
        self.spare: list[int] = []  # slots that nobody has
        self.tasks: list[Task] = []
        self.nodes: list[Node] = []
        self.after: list[tuple[int, ...]] = []
        self.ends: list[Callable[[list[float]], tuple[float, ...]]] = []  # of what it comes after, if these are several
        self.followers: list[int] = []  # how many come after it
        self.then: list[list[Node] | None] = []  # come after it alone, by their labels
        self.watchers: list[list[int] | None] = []  # come after several, and watch it
        self.watched: list[int] = []  # by those that come after several
        self.held: list[tuple[int, ...]] = []  # numbers of its resources
        self.roots: set[int] = set()  # come after nothing
        self.resources: dict[int, int] = {}  # their numbers, from 0

    def place(self, key: Key) -> int:
        """A slot for a task that is not linked yet."""
        if self.spare:
            slot = self.spare.pop()
            self.nodes[slot] = (label(key), slot, -1, 0.0)
        else:
            slot = len(self.nodes)
            self.nodes.append((label(key), slot, -1, 0.0))
            self.tasks.append(Task(key, 0.0, ()))
            self.after.append(())
            self.ends.append(itemgetter(0, 0))
            self.followers.append(0)
            self.then.append(None)
            self.watchers.append(None)
            self.watched.append(-1)
            self.held.append(())
        self.slots[key] = slot
        return slot

    def link(self, slot: int, task: Task) -> None:
        """ValueError if it comes after what is not there."""
        slots, number = self.slots, self.resources
        _, seconds, resources, keys = task[:4]
        if not 0.0 <= seconds < inf:
            raise endless(task)
        try:
            after = tuple([slots[key] for key in keys])
        except KeyError:
            raise missing(task, slots) from None
        held = self.held[slot] = tuple([number.setdefault(resource, len(number)) for resource in resources])
        node = self.nodes[slot] = (self.nodes[slot][0], slot, held[0] if len(held) == 1 else -1, seconds)
        self.tasks[slot], self.after[slot] = task, after
        for before in after:
            self.followers[before] += 1
        if len(after) == 1:
            then = self.then[after[0]]
            if then is None:
                self.then[after[0]] = [node]
            else:
                insort(then, node)
        elif after:
            self.ends[slot] = itemgetter(*after)
            self.watch(slot, after[-1])
        else:
            self.roots.add(slot)

    def unlink(self, slot: int) -> None:
        """From what it comes after, not from what comes after it."""
        after = self.after[slot]
        for before in after:
            self.followers[before] -= 1
        if len(after) == 1:
            self.then[after[0]] = [node for node in self.then[after[0]] or () if node[1] != slot] or None
        elif after:
            self.unwatch(slot)
        else:
            self.roots.discard(slot)
        self.after[slot] = ()

    def watch(self, slot: int, other: int) -> None:
        self.watched[slot] = other
        watchers = self.watchers[other]
        if watchers is None:
            self.watchers[other] = [slot]
        else:
            watchers.append(slot)

    def unwatch(self, slot: int) -> None:
        other = self.watched[slot]
        self.watchers[other] = [one for one in self.watchers[other] or () if one != slot] or None

    def ready(self, slot: int, end: Sequence[float]) -> float:
        """When all that it comes after has ended."""
        after = self.after[slot]
        return end[after[0]] if len(after) == 1 else max([end[before] for before in after], default=0.0)


def label(key: Key) -> bytes:
    """In the same order as keys, and compared faster."""
    return pack(f">{len(key)}Q", *[number + (1 << 63) for number in key])


class Paused(NamedTuple):
    """A run up to some time."""

    end: list[float]  # inf: not taken yet
    free: list[float]  # when each resource is
    waiting: dict[float, list[Node]]  # by the time at which they are ready
    heap: list[float]  # these times
    mixed: set[float]  # those with nodes from several sides, in a list of their own that is not in order
    last: float  # end among those that hold no resource or several


def paused(links: Links, keep: Iterable[Node], ended: Sequence[float], cut: float) -> Paused:
    """`keep`: those that are ready before `cut`, in the order in which they are taken; they end as before."""
    nodes, ends = links.nodes, links.ends
    end, free, last = [inf] * len(nodes), [0.0] * len(links.resources), 0.0
    found: list[tuple[float, Node]] = [(0.0, nodes[slot]) for slot in links.roots] if cut <= 0.0 else []
    watchers: list[list[int]] = []
    for _, slot, resource, _ in keep:
        end[slot] = stop = ended[slot]
        if resource >= 0:
            free[resource] = stop
        else:
            for resource in links.held[slot]:
                free[resource] = stop
            last = max(last, stop)
        if stop >= cut and (then := links.then[slot]):
            found += [(stop, node) for node in then]
        if watching := links.watchers[slot]:
            watchers.append(watching)
    for watching in watchers:
        for other in watching:
            before = ends[other](end)
            ready = max(before)
            if ready == inf:
                links.unwatch(other)
                links.watch(other, links.after[other][before.index(inf)])
            elif ready >= cut:
                found.append((ready, nodes[other]))
    waiting: dict[float, list[Node]] = {}
    for ready, node in found:
        waiting.setdefault(ready, []).append(node)
    return Paused(end, free, waiting, sorted(waiting), set(waiting), last)


def resumed(links: Links, keep: list[Node], ended: Sequence[float], cut: float) -> tuple[list[Node], list[float], float]:
    """The order in which tasks are taken, when each ends, and when all have; tasks that wait for each other are left out. Given are those
    that are ready before `cut`, in order, and their ends."""
    nodes, ends, held, then, watchers = links.nodes, links.ends, links.held, links.then, links.watchers
    end, free, waiting, heap, mixed, last = paused(links, keep, ended, cut)
    while heap:
        now = heappop(heap)
        batch = waiting.pop(now)
        if now in mixed:
            batch.sort()
            mixed.remove(now)
        for _, slot, resource, seconds in batch:
            if resource >= 0:
                stop = free[resource]
                if stop < now:
                    stop = now
                stop += seconds
                free[resource] = stop
            else:
                stop = now
                for resource in held[slot]:
                    if free[resource] > stop:
                        stop = free[resource]
                stop += seconds
                for resource in held[slot]:
                    free[resource] = stop
                if stop > last:
                    last = stop
            end[slot] = stop
            alone = then[slot]
            if alone is not None:
                if stop in mixed:
                    waiting[stop] += alone
                elif stop in waiting:
                    waiting[stop] = waiting[stop] + alone
                    mixed.add(stop)
                else:
                    waiting[stop] = alone
                    heappush(heap, stop)
            watching = watchers[slot]
            if watching is not None:
                for other in watching:
                    before = ends[other](end)
                    ready = max(before)
                    if ready == inf:
                        links.unwatch(other)
                        links.watch(other, links.after[other][before.index(inf)])
                    elif ready in mixed:
                        waiting[ready].append(nodes[other])
                    elif ready in waiting:
                        waiting[ready] = [*waiting[ready], nodes[other]]
                        mixed.add(ready)
                    else:
                        waiting[ready] = [nodes[other]]
                        heappush(heap, ready)
            if stop == now and now in waiting:  # took no time: what is ready by it may come before the rest by its key
                done = batch.index(nodes[slot]) + 1
                rest = batch[done:]
                keep += batch[:done]
                if rest:
                    waiting[now] = waiting[now] + rest
                    mixed.add(now)
                break
        else:
            keep += batch
    return keep, end, max([last, *free])
