"""Traffic: the bytes that a worker hands over in a step, operator by operator, worked out from layouts alone.

What `line.sent` counts is this, to the byte: it is what `laminar show --split` prints, and what a planner can go by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

import torch

from laminar.parallel.split.calls import Value
from laminar.parallel.split.dims import At, Dims, Mesh, local_sizes, shape_of
from laminar.parallel.split.kernels import reach
from laminar.parallel.split.moves import Move, moves, part
from laminar.parallel.split.place import Operation, Placed
from laminar.parallel.split.program import deferred


@dataclass(frozen=True)
class Handed:
    """One exchange among the workers along an axis, and the bytes that one of them hands over in it."""

    kind: Literal["sum", "gather", "swap"]
    axis: str
    bytes: int


@dataclass(frozen=True)
class Sent:
    """By one worker, for one operator."""

    path: str
    operator: str
    forward: int
    backward: int
    why: str
    before: tuple[Handed, ...] = ()  # until operands are as the operator needs them …
    after: tuple[Handed, ...] = ()  # … what it exchanges itself: forward in all
    back: tuple[Handed, ...] = ()  # of the backward pass, in the order of the forward pass


@dataclass(frozen=True)
class Traffic:
    operators: list[Sent]
    gradients: dict[str, int]  # of parameters, after the backward pass
    output: Sent

    @property
    def step(self) -> int:
        """Of a whole step of training, without what is told at its end."""
        return sum(one.forward + one.backward for one in [*self.operators, self.output]) + sum(self.gradients.values())


_NOTHING: Final = Sent("", "output", 0, 0, "")
Ways = tuple[list[Handed], list[Handed]]  # there and back


class _Count:
    def __init__(self, placed: Placed, at: At, rows: int, trains: Callable[[str], bool]) -> None:
        self._placed, self._at, self._rows = placed, at, rows
        self._mesh: Mesh = placed.mesh
        self._deferred = deferred(placed)
        self._learns = {node: trains(name) for node, name in placed.traced.tensors.items()}
        self._ready: set[tuple[object, ...]] = set()

    def count(self, trains: Callable[[str], bool], some: Collection[int]) -> Traffic:
        placed, found = self._placed, []
        for node in placed.traced.inputs:
            self._learns[node] = False
        for number, op in enumerate(placed.operations):
            if number not in some:
                self._learns[op.call.name] = any(self._learns[node] for node in op.operands)
                continue
            before, after, back = list[Handed](), list[Handed](), list[Handed]()
            for i, node in enumerate(op.operands):
                if op.run != "item":
                    there, returned = self._operand(node, op, i)
                    before, back = before + there, back + returned
            self._learns[op.call.name] = any(self._learns[node] for node in op.operands)
            if op.facts.get("windows"):
                there, returned = self._windows(op, placed.traced.dtypes[op.call.name][0])
                before, back = before + there, back + returned
            there, returned = self._own(op)
            after, back = after + there, back + returned
            found.append(_sent(op.call.path, op.call.name, op.why, before, after, back))
        gradients = {}
        own_tensors = {placed.traced.tensors[node] for i in some for node in placed.operations[i].operands if node in placed.traced.tensors}
        for name, axes in self._deferred.items():
            if name not in own_tensors:
                continue
            size = self._bytes(placed.layouts[name], torch.float32)
            if axes and trains(name):
                gradients[name] = size * len(axes)
        output = placed.traced.output
        if not any(placed.operations[i].call.name == output for i in some):
            return Traffic(found, gradients, _NOTHING)
        there, back = self._moved(placed.values[output][0], placed.output, placed.traced.dtypes[output][0], learns=self._learns[output])
        why = "the loss needs all classes of the own rows" if there or back else ""
        return Traffic(found, gradients, _sent("", "output", why, there, [], back))

    def _operand(self, node: Value, op: Operation, i: int) -> Ways:
        name = self._placed.traced.tensors.get(node)
        if name is not None and name in self._deferred:
            return [], []
        have = self._placed.layouts[name] if name is not None else self._placed.values[node][0]
        need, partial, dtype = op.needs[i], op.partial[i], self._placed.traced.dtypes[node][0]
        key = (node, tuple(shape_of(dim) for dim in need))
        forward, backward = list[Handed](), list[Handed]()
        if key not in self._ready:
            self._ready.add(key)
            forward, backward = self._moved(have, need, dtype, learns=self._learns[node])
        if partial and self._learns[node] and (*key, partial) not in self._ready:
            self._ready.add((*key, partial))
            backward += [Handed("sum", axis, self._bytes(need, dtype)) for axis in partial]
        return forward, backward

    def _moved(self, have: Dims, need: Dims, dtype: torch.dtype, *, learns: bool) -> Ways:
        forward, backward = list[Handed](), list[Handed]()
        for move in moves(have, need):
            if self._mesh[move.axis] == 1:
                continue
            own = Handed("gather", move.axis, self._part(move) * dtype.itemsize)
            if move.kind == "gather":
                forward.append(own)
            elif learns:
                backward.append(own)
        return forward, backward

    def _part(self, move: Move) -> int:
        """Numbers of the own part."""
        where = part(move, self._at, self._mesh, self._rows)
        own = where.size * (self._at[move.axis] + 1) // self._mesh[move.axis] - where.size * self._at[move.axis] // self._mesh[move.axis]
        return where.before * own * where.behind

    def _own(self, op: Operation) -> Ways:
        """What the operator itself exchanges, but for windows."""
        dtype = self._placed.traced.dtypes[op.call.name][0]
        forward = [Handed("sum", axis, self._bytes(op.gives[0], dtype)) for axis in op.sums if self._mesh[axis] > 1]
        backward = list[Handed]()
        if op.run == "batch_norm":
            channels = prod(local_sizes(op.gives[0][1:2], self._at, self._mesh, self._rows)) * dtype.itemsize
            both = 2 * [Handed("sum", axis, channels) for axis in op.facts["axes"] if self._mesh[axis] > 1]
            forward += both
            backward += both if self._learns[op.operands[0]] else []
        return forward, backward

    def _windows(self, op: Operation, dtype: torch.dtype) -> Ways:
        """Dimension by dimension: what was fetched in one is sent along in the next."""
        x = op.operands.index(op.call.args[0])
        sizes = list(local_sizes(op.needs[x], self._at, self._mesh, self._rows))
        forward, backward = list[Handed](), list[Handed]()
        for d, window in enumerate(op.facts["windows"]):
            if window is None or self._mesh[window["axis"]] == 1:
                continue
            axis, place, parts = window["axis"], self._at[window["axis"]], self._mesh[window["axis"]]
            ranges, _ = reach(window, place, parts)
            each = prod(size for i, size in enumerate(sizes) if i != 2 + d) * dtype.itemsize
            others = [other for other in range(parts) if other != place]
            if not ranges.quiet:
                forward.append(Handed("swap", axis, each * sum(len(ranges.between(place, other)) for other in others)))
                backward.append(Handed("swap", axis, each * sum(len(ranges.between(other, place)) for other in others)))
            sizes[2 + d] = len(ranges.needs[place])
        return forward, backward if self._learns[op.call.name] and self._learns[op.operands[0]] else []

    def _bytes(self, dims: Dims, dtype: torch.dtype) -> int:
        return prod(local_sizes(dims, self._at, self._mesh, self._rows)) * dtype.itemsize


def _sent(path: str, name: str, why: str, before: list[Handed], after: list[Handed], back: list[Handed]) -> Sent:
    forward, backward = sum(one.bytes for one in before + after), sum(one.bytes for one in back)
    return Sent(path, name, forward, backward, why, tuple(before), tuple(after), tuple(back))


def traffic(placed: Placed, at: At, rows: int, trains: Callable[[str], bool], some: Collection[int] | None = None) -> Traffic:
    """`trains`: does the model's tensor of this name get a gradient? `some`: operators, if not all."""
    return _Count(placed, at, rows, trains).count(trains, range(len(placed.operations)) if some is None else frozenset(some))
