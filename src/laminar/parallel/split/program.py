"""Program: operators of a placed model as one worker runs them, with gradients that find their way back through every exchange.

All that does not change from step to step is worked out once: which exchanges an operand needs, and what can be forgotten when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, mapped
from laminar.parallel.split.collectives import Part, gather, spread, take
from laminar.parallel.split.dims import Dims, shape_of
from laminar.parallel.split.kernels import KERNELS, Here, Kernel
from laminar.parallel.split.moves import Move, moves, part
from laminar.parallel.split.place import Operation, Placed

Key = tuple[Any, ...]  # a value in a layout


@dataclass
class Moving:
    """An exchange, and where its atom lies for batches of the sizes there were."""

    move: Move
    parts: dict[int, Part] = field(default_factory=dict)

    def __call__(self, value: Tensor, here: Here) -> Tensor:
        if here.rows not in self.parts:
            self.parts[here.rows] = part(self.move, here.at, here.mesh, here.rows)
        exchange = gather if self.move.kind == "gather" else take
        return exchange(value.contiguous(), self.parts[here.rows], here.lines[self.move.axis])


@dataclass(frozen=True)
class Use:
    """An operand as an operator needs it; made once for all who need it so."""

    node: Value
    name: str | None  # of the model's tensor that it is
    moves: tuple[Moving, ...] = ()
    partial: tuple[str, ...] = ()
    moved: Key = ()
    spread: Key = ()


@dataclass(frozen=True)
class Step:
    op: Operation
    kernel: Kernel
    uses: tuple[Use, ...]
    deep: bool  # are there values inside lists of arguments?
    forget: tuple[Value, ...]
    forget_ready: tuple[Key, ...]


@final
class Program:
    def __init__(self, placed: Placed, here: Here, some: Sequence[int] | None = None, gives: Sequence[Value] | None = None) -> None:
        """`some`: the operators, if not all; `gives`: what is asked for, if not the output."""
        self.here = here
        self.deferred = deferred(placed)
        self.gives = tuple(gives if gives is not None else [placed.traced.output])
        chosen = placed.operations if some is None else [placed.operations[i] for i in some]
        self.inputs = tuple(placed.traced.inputs)
        self._inputs = {node: _moving(_only_batch(placed.values[node][0]), placed.values[node][0]) for node in self.inputs}
        self._output = placed.traced.output
        self._leaving = _moving(placed.values[self._output][0], placed.output)
        self._steps = self._planned(placed, chosen)

    def run(self, given: Mapping[Value, Tensor], tensors: Mapping[str, Tensor], rows: int) -> dict[Value, Tensor]:
        """`given`: inputs, the own rows of a batch of `rows`, and what other programs gave; `tensors`: the own parts of the model's."""
        here = self.here
        here.rows = rows
        here.draw = int(torch.randint(1 << 62, ()))
        values: dict[Value, Any] = {node: _carried(value, self._inputs.get(node, ()), here) for node, value in given.items()}
        ready: dict[Key, Tensor] = {}
        for step in self._steps:
            operands: dict[Any, Any] = {}
            for use in step.uses:
                value = values[use.node] if use.name is None else tensors[use.name]
                operands[use.node] = value if not use.spread else _made_ready(value, use, here, ready)
            if step.deep:
                args = mapped(step.op.call.args, lambda one: operands[one] if isinstance(one, Value) else one)  # noqa: B023
            else:
                args = [operands[one] if isinstance(one, Value) else one for one in step.op.call.args]
            values[step.op.call.name] = step.kernel(step.op, here, args, operands)
            for node in step.forget:
                del values[node]
            for key in step.forget_ready:
                ready.pop(key, None)
        return {node: _carried(values[node], self._leaving if node == self._output else (), here) for node in self.gives}

    def _planned(self, placed: Placed, chosen: Sequence[Operation]) -> list[Step]:
        all_uses = [self._uses(placed, op) for op in chosen]
        last = {use.node: i for i, uses in enumerate(all_uses) for use in uses if use.name is None and use.node not in self.gives}
        keys: dict[Value, set[Key]] = {}
        for use in (use for uses in all_uses for use in uses if use.spread):
            keys.setdefault(use.node, set()).update((use.moved, use.spread))
        found = []
        for i, (op, uses) in enumerate(zip(chosen, all_uses, strict=True)):
            gone = tuple(dict.fromkeys(use.node for use in uses if last.get(use.node) == i))
            deep = any(isinstance(one, list | tuple | dict) for one in op.call.args)
            found.append(Step(op, KERNELS[op.run], uses, deep, gone, tuple(key for node in gone for key in keys.get(node, ()))))
        return found

    def _uses(self, placed: Placed, op: Operation) -> tuple[Use, ...]:
        found = []
        for i, node in enumerate(op.operands):
            name = placed.traced.tensors.get(node)
            if op.run == "item" or (name is not None and name in self.deferred):
                found.append(Use(node, name))
                continue
            moving = _moving(placed.layouts[name] if name is not None else placed.values[node][0], op.needs[i])
            if not moving and not op.partial[i]:
                found.append(Use(node, name))
                continue
            moved = (node, tuple(shape_of(dim) for dim in op.needs[i]))
            found.append(Use(node, name, moving, op.partial[i], moved, (*moved, op.partial[i])))
        return tuple(found)


def _made_ready(value: Tensor, use: Use, here: Here, ready: dict[Key, Tensor]) -> Tensor:
    if use.spread not in ready:
        if use.moved not in ready:
            ready[use.moved] = _carried(value, use.moves, here)
        found = ready[use.moved]
        for axis in use.partial:
            found = spread(found, here.lines[axis])
        ready[use.spread] = found
    return ready[use.spread]


def _carried(value: Tensor, way: Sequence[Moving], here: Here) -> Tensor:
    for moving in way:
        value = moving(value, here)
    return value


def _moving(have: Dims, need: Dims) -> tuple[Moving, ...]:
    return tuple(map(Moving, moves(have, need)))


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
