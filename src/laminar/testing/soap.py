"""Soap: a network like Inception whose operators are split by Sample, Attribute and Parameter over devices, as a graph of tasks.

After FlexFlow (Jia et al., MLSys 2019, arXiv 1807.05358): an operator's result is cut along rows (sample), length (attribute: weights stay
whole) and channels (parameter), and each part has a device of its own, so operators may be on different devices, too. A part waits for the
parts of its producers that it overlaps: on another device they are sent over the link between the two. Each operator has a twin that goes
the way back, on the same devices, sums the gradients of equal weights around a ring, and applies them.

No operator here is measured: it is for tests and benchmarks of the simulator (plan/simulate.py, plan/delta.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import NamedTuple

from laminar.plan.tasks import Key, Task

SPEED = 4e12  # operations a second of a device
WIRE = 5e10  # bytes a second of a link
START, LATENCY = 2e-6, 5e-6  # seconds before a device, a link begins
NUMBER = 4  # bytes


class Split(NamedTuple):
    """How an operator is cut, and the device of each part; of channels first, then length, then rows."""

    rows: int
    length: int
    channels: int
    devices: tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    name: str
    needs: tuple[int, ...]
    length: int
    channels: int
    work: float  # operations for a row
    weights: int = 0  # bytes
    mixes: bool = True  # every channel of its result needs all that come in; else they are the ones that came in, one need after the other


def inception(operators: int) -> list[Operator]:
    """So many: a stem, modules of four branches, and a tail."""
    found: list[Operator] = []

    def add(name: str, *needs: int, channels: int = 0, width: int = 1) -> int:
        """`width`: of the window that is looked through; 0: nothing is learned."""
        length = max(8, 32 >> len(found) // 40)
        inside = sum(found[need].channels for need in needs) or 3
        channels = channels or inside
        numbers = inside * channels * width if width else 0
        work = 2.0 * length * length * (numbers or 9 * channels)
        found.append(Operator(f"{name}{len(found)}", needs, length, channels, work, NUMBER * numbers, mixes=width > 0))
        return len(found) - 1

    last = add("conv", channels=32, width=9)
    for channels in (32, 64, 0, 80, 192)[: operators - 1]:
        last = add("conv" if channels else "pool", last, channels=channels, width=9 if channels else 0)
    while operators - len(found) >= 9 + 3:
        wide = 64 + 16 * (len(found) // 27)
        one = add("conv", last, channels=wide)
        two = add("conv", add("conv", last, channels=wide // 2), channels=wide, width=9)
        three = add("conv", add("conv", add("conv", last, channels=wide // 2), channels=wide, width=9), channels=wide, width=9)
        four = add("conv", add("pool", last, width=0), channels=wide // 2)
        last = add("concat", one, two, three, four, width=0)
    while len(found) < operators:
        last = add("dense", last, channels=256)
    return found


@cache
def _overlaps(size: int, parts: int, takers: int, offset: int, total: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each of `takers` equal parts of `total`: which of the equal parts of `size`, laid at `offset` of it, it has how much of."""
    found = []
    for taker in range(takers):
        low, high = taker * total // takers - offset, (taker + 1) * total // takers - offset
        shared = [(part, min(high, (part + 1) * size // parts) - max(low, part * size // parts)) for part in range(parts)]
        found.append(tuple((part, some) for part, some in shared if some > 0))
    return tuple(found)


class Edge(NamedTuple):
    """A result that another operator takes."""

    source: int
    taker: int
    number: int  # among those that the taker takes
    offset: int  # of its first channel among the taker's; -1: every channel of the taker needs all
    name: str


@dataclass(frozen=True)
class Soap:
    """Makes the tasks of operators and of their twins, which come after them in opposite order. Splits are those of the operators."""

    graph: Sequence[Operator]
    devices: int
    rows: int = 64
    operators: int = field(init=False)
    _into: tuple[tuple[Edge, ...], ...] = field(init=False, repr=False)  # by operator
    _from: tuple[tuple[Edge, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        edges = [edge for taker in range(len(self.graph)) for edge in self._edges(taker)]
        every = range(len(self.graph))
        object.__setattr__(self, "operators", 2 * len(self.graph))
        object.__setattr__(self, "_into", tuple(tuple(edge for edge in edges if edge.taker == i) for i in every))
        object.__setattr__(self, "_from", tuple(tuple(edge for edge in edges if edge.source == i) for i in every))

    def twin(self, operator: int) -> int:
        return self.operators - 1 - operator

    def touched(self, operator: int) -> Sequence[int]:
        if operator >= len(self.graph):
            return (operator, *(self.twin(need) for need in self.graph[self.twin(operator)].needs))
        takers = {edge.taker for edge in self._from[operator]}
        return (operator, *sorted(takers), self.twin(operator), *(self.twin(need) for need in self.graph[operator].needs))

    def tasks_of(self, operator: int, configs: Sequence[Split]) -> Sequence[Task]:
        return self._forward(operator, configs) if operator < len(self.graph) else self._backward(operator, configs)

    def everything(self, configs: Sequence[Split]) -> list[Task]:
        return [task for operator in range(self.operators) for task in self.tasks_of(operator, configs)]

    def over_rows(self) -> list[Split]:
        """What everybody begins with: all operators cut along rows, over all devices."""
        return [Split(self.devices, 1, 1, tuple(range(self.devices)))] * len(self.graph)

    def any_split(self, operator: int, rng: Random) -> Split:
        """A power of two of parts, cut any way, on any devices."""
        cuts = [1, 1, 1]
        sizes = (self.rows, self.graph[operator].length, self.graph[operator].channels)
        for _ in range(rng.randrange(self.devices.bit_length())):
            cuts[rng.choice([i for i in range(3) if 2 * cuts[i] <= sizes[i]])] *= 2
        rows, length, channels = cuts
        return Split(rows, length, channels, tuple(rng.sample(range(self.devices), rows * length * channels)))

    def _edges(self, taker: int) -> Iterator[Edge]:
        one, offset = self.graph[taker], 0
        for number, need in enumerate(one.needs):
            yield Edge(need, taker, number, -1 if one.mixes else offset, f"{self.graph[need].name} to {one.name}")
            offset += self.graph[need].channels

    def _forward(self, i: int, splits: Sequence[Split]) -> list[Task]:
        one, split = self.graph[i], splits[i]
        found: list[Task] = []
        after: list[list[Key]] = [[] for _ in split.devices]
        for edge in self._into[i]:
            there = splits[edge.source].devices
            for source, part, size in self._shared(edge, splits):
                before, begin, end = (edge.source, 0, source), there[source], split.devices[part]
                if begin != end:
                    key = (i, 1, part, edge.number, source)
                    found.append(Task(key, LATENCY + size / WIRE, (self._link(begin, end),), (before,), "transfer", edge.name))
                    before = key  # type: ignore[assignment]
                after[part].append(before)
        parts = len(split.devices)
        seconds = START + one.work * self.rows / parts / SPEED
        kept = NUMBER * one.channels * one.length**2 * self.rows // parts
        for part, device in enumerate(split.devices):
            found.append(Task((i, 0, part), seconds, (device,), tuple(after[part]), "forward", one.name, ((device, kept),)))
        return found

    def _backward(self, twin: int, splits: Sequence[Split]) -> list[Task]:
        i = self.twin(twin)
        one, split = self.graph[i], splits[i]
        found: list[Task] = []
        after: list[list[Key]] = [[(i, 0, part)] for part in range(len(split.devices))]
        for number, edge in enumerate(self._from[i]):
            there, back = splits[edge.taker].devices, self.twin(edge.taker)
            for part, source, size in self._shared(edge, splits):
                before, begin, end = (back, 0, source), there[source], split.devices[part]
                if begin != end:
                    key = (twin, 1, part, number, source)
                    found.append(Task(key, LATENCY + size / WIRE, (self._link(begin, end),), (before,), "transfer", edge.name))
                    before = key  # type: ignore[assignment]
                after[part].append(before)
        parts = len(split.devices)
        seconds = START + 2 * one.work * self.rows / parts / SPEED
        kept = NUMBER * one.channels * one.length**2 * self.rows // parts
        for part, device in enumerate(split.devices):
            found.append(Task((twin, 0, part), seconds, (device,), tuple(after[part]), "backward", one.name, (), ((device, kept),)))
        if one.weights:
            found += self._learned(twin, one, split)
        return found

    def _learned(self, twin: int, one: Operator, split: Split) -> Iterator[Task]:
        """Parts that have the same channels have the same weights."""
        size = one.weights // split.channels
        same = len(split.devices) // split.channels
        for shard in range(split.channels):
            members = split.devices[shard * same : (shard + 1) * same]
            after = tuple((twin, 0, shard * same + i) for i in range(same))
            if same > 1:
                ring = tuple(self._link(a, b) for a, b in zip(members, members[1:] + members[:1], strict=True))
                seconds = 2 * (same - 1) * (LATENCY + size / same / WIRE)
                yield Task((twin, 2, shard), seconds, ring, after, "exchange", one.name)
                after = ((twin, 2, shard),)
            for i, device in enumerate(members):
                yield Task((twin, 3, shard, i), START + 3 * size / NUMBER / SPEED, (device,), after, "optimizer", one.name)

    def _link(self, begin: int, end: int) -> int:
        return self.devices * (1 + begin) + end

    def _shared(self, edge: Edge, splits: Sequence[Split]) -> Iterator[tuple[int, int, int]]:
        """(part of the source, part of the taker, bytes) of what they share."""
        source, mine, taker = self.graph[edge.source], splits[edge.source], splits[edge.taker]
        rows = _overlaps(self.rows, mine.rows, taker.rows, 0, self.rows)
        length = _overlaps(source.length, mine.length, taker.length, 0, source.length)
        if edge.offset < 0:
            channels = _overlaps(source.channels, mine.channels, 1, 0, source.channels) * taker.channels
        else:
            channels = _overlaps(source.channels, mine.channels, taker.channels, edge.offset, self.graph[edge.taker].channels)
        part = 0
        for some in channels:
            for long in length:
                for many in rows:
                    for c, wide in some:
                        for a, high in long:
                            for s, deep in many:
                                yield (c * mine.length + a) * mine.rows + s, part, NUMBER * wide * high * source.length * deep
                    part += 1
