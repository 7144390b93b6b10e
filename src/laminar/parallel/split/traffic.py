"""Traffic: the bytes that a worker hands over in a step, operator by operator, worked out from layouts alone.

What `line.sent` counts is this, to the byte: it is what `laminar show --split` prints, and what a planner can go by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

import torch

from laminar.parallel.split.backward import gradients
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
    def __init__(
        self,
        placed: Placed,
        at: At,
        rows: int,
        trains: Callable[[str], bool],
        some: Collection[int],
        ends: Collection[Value] | None,
        taken: Mapping[Value, bool] | None,
    ) -> None:
        self._placed, self._at, self._rows, self._trains = placed, at, rows, trains
        self._mesh: Mesh = placed.mesh
        self._deferred = deferred(placed)
        self._numbers = [number for number in range(len(placed.operations)) if number in some]
        self._operations = [placed.operations[number] for number in self._numbers]
        roots = [placed.traced.output] if ends is None else ends
        self._gradients = gradients(placed.traced, [op.call for op in self._operations], trains, roots, taken)
        self._ready: set[tuple[object, ...]] = set()
        # operands that several operators need in the same layout are brought there once, and back once if any of them gives a gradient
        self._back: set[tuple[object, ...]] = set()
        for op in self._operations:
            for i, node in enumerate(op.operands):
                if self._gradients.reaches(placed.traced, op.call, node) and op.run != "item":
                    moved, spread = _keys(op, i)
                    self._back |= {moved, spread}

    def count(self) -> Traffic:
        placed, found = self._placed, []
        for op in self._operations:
            before, after, back = list[Handed](), list[Handed](), list[Handed]()
            for i, node in enumerate(op.operands):
                if op.run != "item":
                    there, returned = self._operand(node, op, i)
                    before, back = before + there, back + returned
            if op.facts.get("windows"):
                there, returned = self._windows(op)
                before, back = before + there, back + returned
            there, returned = self._own(op)
            after, back = after + there, back + returned
            found.append(_sent(op.call.path, op.call.name, op.why, before, after, back))
        summed = {}
        for node in {node: None for op in self._operations for node in op.operands if node in placed.traced.tensors}:
            name = placed.traced.tensors[node]
            axes = [axis for axis in self._deferred.get(name, ()) if self._mesh[axis] > 1]
            if axes and node in self._gradients.wanted:
                summed[name] = self._bytes(placed.layouts[name], placed.traced.dtypes[node][0]) * len(axes)
        output = placed.traced.output
        if not any(op.call.name == output for op in self._operations):
            return Traffic(found, summed, _NOTHING)
        learns = output in self._gradients.learns
        there, back = self._moved(placed.values[output][0], placed.output, placed.traced.dtypes[output][0], learns=learns)
        why = "the loss needs all classes of the own rows" if there or back else ""
        return Traffic(found, summed, _sent("", "output", why, there, [], back))

    def _operand(self, node: Value, op: Operation, i: int) -> Ways:
        name = self._placed.traced.tensors.get(node)
        if name is not None and name in self._deferred:
            return [], []
        have = self._placed.layouts[name] if name is not None else self._placed.values[node][0]
        need, partial, dtype = op.needs[i], op.partial[i], self._placed.traced.dtypes[node][0]
        moved, spread = _keys(op, i)
        forward, backward = list[Handed](), list[Handed]()
        if moved not in self._ready:
            self._ready.add(moved)
            forward, backward = self._moved(have, need, dtype, learns=moved in self._back)
        if partial and spread not in self._ready:
            self._ready.add(spread)
            if spread in self._back:
                backward += [Handed("sum", axis, self._bytes(need, dtype)) for axis in partial if self._mesh[axis] > 1]
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
            backward += both if self._gradients.reaches(self._placed.traced, op.call, op.operands[0]) else []
        return forward, backward

    def _windows(self, op: Operation) -> Ways:
        """Dimension by dimension: what was fetched in one is sent along in the next."""
        x = op.operands.index(op.call.args[0])
        dtype = self._placed.traced.dtypes[op.operands[x]][0]
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
        return forward, backward if self._gradients.reaches(self._placed.traced, op.call, op.operands[x]) else []

    def _bytes(self, dims: Dims, dtype: torch.dtype) -> int:
        return prod(local_sizes(dims, self._at, self._mesh, self._rows)) * dtype.itemsize


def _sent(path: str, name: str, why: str, before: list[Handed], after: list[Handed], back: list[Handed]) -> Sent:
    forward, backward = sum(one.bytes for one in before + after), sum(one.bytes for one in back)
    return Sent(path, name, forward, backward, why, tuple(before), tuple(after), tuple(back))


def _keys(op: Operation, i: int) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Of an operand in the layout that an operator needs, and of the same with gradients from several workers."""
    moved = (op.operands[i], tuple(shape_of(dim) for dim in op.needs[i]))
    return moved, (*moved, op.partial[i])


def traffic(
    placed: Placed,
    at: At,
    rows: int,
    trains: Callable[[str], bool],
    some: Collection[int] | None = None,
    *,
    ends: Collection[Value] | None = None,
    taken: Mapping[Value, bool] | None = None,
) -> Traffic:
    """`trains`: does the model's tensor of this name get a gradient? `some`: operators, if not all. `ends`: values where gradients come in,
    if not the output alone; `taken`: values that others made, and whether gradients go back to them."""
    chosen = range(len(placed.operations)) if some is None else frozenset(some)
    return _Count(placed, at, rows, trains, chosen, ends, taken).count()
