"""Program: a placed model as one worker runs it, forward, with gradients that find their way back through every exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, mapped
from laminar.parallel.split.collectives import gather, spread, take
from laminar.parallel.split.dims import Dims, shape_of
from laminar.parallel.split.kernels import KERNELS, Here
from laminar.parallel.split.moves import Move, moves, part
from laminar.parallel.split.place import Operation, Placed

Ready = dict[tuple[Any, ...], Tensor]  # values as they were needed before, in this run


@final
class Program:
    def __init__(self, placed: Placed, here: Here) -> None:
        self.placed, self.here = placed, here
        self.deferred = deferred(placed)
        self._last = _last_uses(placed)
        self._moves: dict[tuple[Any, ...], list[Move]] = {}

    def run(self, inputs: Sequence[Tensor], tensors: Mapping[str, Tensor], rows: int) -> Tensor:
        """The output of the own rows. `inputs`: the own rows of a batch of `rows`; `tensors`: the own parts of the model's."""
        here, traced = self.here, self.placed.traced
        here.rows = rows
        here.draw = int(torch.randint(1 << 62, ()))
        values: dict[Value, Any] = {}
        ready: Ready = {}
        for node, given in zip(traced.inputs, inputs, strict=True):
            (dims,) = self.placed.values[node]
            values[node] = self._moved(given, _only_batch(dims), dims)
        for op in self.placed.operations:
            operands: dict[Any, Any] = {}
            for i, node in enumerate(op.operands):
                if op.run == "item":
                    operands[node] = values[node]
                elif node in values:
                    operands[node] = self._operand(values[node], node, self.placed.values[node][0], op, i, ready)
                else:
                    name = traced.tensors[node]
                    operands[node] = self._tensor(tensors[name], name, node, op, i, ready)
            args = mapped(op.call.args, lambda one: operands[one] if isinstance(one, Value) else one)  # noqa: B023
            values[op.call.name] = KERNELS[op.run](op, here, args, operands)
            for node in self._last.get(op.call.name, ()):
                values.pop(node, None)
                for key in [key for key in ready if key[0] == node]:
                    del ready[key]
        output = traced.output
        return self._moved(values[output], self.placed.values[output][0], self.placed.output)

    def _operand(self, value: Tensor, node: Value, have: Dims, op: Operation, i: int, ready: Ready) -> Tensor:
        """A value in the layout that is needed, made once for all who need it so."""
        need, partial = op.needs[i], op.partial[i]
        key = (node, tuple(shape_of(dim) for dim in need))
        if key not in ready:
            ready[key] = self._moved(value, have, need)
        if not partial:
            return ready[key]
        if (*key, partial) not in ready:
            found = ready[key]
            for axis in partial:
                found = spread(found, self.here.lines[axis])
            ready[(*key, partial)] = found
        return ready[(*key, partial)]

    def _tensor(self, value: Tensor, name: str, node: Value, op: Operation, i: int, ready: Ready) -> Tensor:
        if name in self.deferred:
            return value
        return self._operand(value, node, self.placed.layouts[name], op, i, ready)

    def _moved(self, value: Tensor, have: Dims, need: Dims) -> Tensor:
        key = (have, need)
        if key not in self._moves:
            self._moves[key] = moves(have, need)
        for move in self._moves[key]:
            where = part(move, self.here.at, self.here.mesh, self.here.rows)
            value = (gather if move.kind == "gather" else take)(value.contiguous(), where, self.here.lines[move.axis])
        return value


def _only_batch(dims: Dims) -> Dims:
    return tuple(tuple(a if a.of_batch else replace(a, axis=None) for a in dim) for dim in dims)


def deferred(placed: Placed) -> dict[str, tuple[str, ...]]:
    """Tensors that all operators take as they are kept, and of whose gradient each worker has a part along the same axes: those parts can
    be added up after the backward pass, all at once."""
    uses: dict[str, set[tuple[str, ...] | None]] = {}
    for op in placed.operations:
        for node, need, partial in zip(op.operands, op.needs, op.partial, strict=False):
            if (name := placed.traced.tensors.get(node)) is not None:
                uses.setdefault(name, set()).add(partial if not moves(placed.layouts[name], need) else None)
    return {name: axes for name, found in uses.items() if len(found) == 1 and (axes := next(iter(found))) is not None}


def _last_uses(placed: Placed) -> dict[Value, list[Value]]:
    last: dict[Value, Value] = {}
    for op in placed.operations:
        for node in op.operands:
            last[node] = op.call.name
    found: dict[Value, list[Value]] = {}
    for node, at in last.items():
        if node != placed.traced.output and node not in placed.traced.tensors:
            found.setdefault(at, []).append(node)
    return found
