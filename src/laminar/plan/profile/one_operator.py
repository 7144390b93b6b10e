"""One operator as one worker of a mesh runs it: what it depends on, and how long it takes there and back, on tensors made up for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, for_rows, mapped, packed
from laminar.parallel.split.dims import At, Atom, alike, local_sizes, size_of, with_rows
from laminar.parallel.split.kernels import KERNELS, Here
from laminar.parallel.split.line import Line
from laminar.parallel.split.place import Operation, Placed
from laminar.parallel.split.weight_grads import APART, WeightGradients
from laminar.plan.our_code import our_code
from laminar.plan.profile.dry_line import DryLine
from laminar.plan.profile.patterns import Pattern, laid
from laminar.plan.profile.timing import Effort, Timing, timed

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A value, or a row of them, as the operator gets it."""

    parts: tuple[tuple[Sizes, torch.dtype, Pattern | None], ...]
    several: bool
    learns: bool
    own: bool  # one of the model's tensors
    below: int  # whole numbers in it are smaller

    def to_json(self) -> Any:
        parts = [
            [sizes, None if pattern is None else pattern.strides(sizes), str(dtype).removeprefix("torch.")]
            for sizes, dtype, pattern in self.parts
        ]
        return [parts, self.several, self.learns, self.own, self.below]

    def made(self) -> Any:
        found = [self._one(sizes, dtype, pattern) for sizes, dtype, pattern in self.parts]
        return found if self.several else found[0]

    def _one(self, sizes: Sizes, dtype: torch.dtype, pattern: Pattern | None) -> Tensor:
        tensor = laid(sizes, dtype, pattern)
        whole = tensor if pattern is None or not pattern.stretched else tensor[tuple(_first(d, pattern) for d in range(len(sizes)))]
        if dtype.is_floating_point:
            whole.normal_()
            return tensor.requires_grad_(self.learns)
        whole.random_(0, 2 if dtype == torch.bool else max(1, self.below))
        return tensor


def _first(dim: int, pattern: Pattern) -> slice:
    return slice(0, 1) if dim in pattern.stretched else slice(None)


@dataclass(frozen=True)
class Site:
    """A worker's place, and what is known of the model's values."""

    placed: Placed
    at: At
    rows: int
    patterns: Mapping[Value, Sequence[Pattern | None]]
    learns: frozenset[Value]

    def here(self, weights: WeightGradients | None = None) -> Here:
        return Here(self.placed.mesh, self.at, dry_lines(self.placed.mesh, self.at), self.rows, draw=1, weights=weights)

    def sizes(self, op: Operation) -> list[Sizes]:
        """Of what it gives."""
        return [local_sizes(dims, self.at, self.placed.mesh, self.rows) for dims in op.gives]

    def operand(self, op: Operation, i: int) -> Operand:
        node, traced = op.operands[i], self.placed.traced
        own = node in traced.tensors
        every = [op.needs[i]] if op.run != "item" else self.placed.values[node]
        sizes = [local_sizes(dims, self.at, self.placed.mesh, self.rows) for dims in every]
        dtypes = traced.dtypes[node]
        # what is brought into another layout is laid out anew
        patterns = self.patterns.get(node, [None] * len(sizes)) if self.as_made(op, i) else [None] * len(sizes)
        parts = tuple(zip(sizes, dtypes, patterns, strict=False))
        # rows of a table are looked up anywhere in it; other whole numbers are small
        return Operand(parts, op.run == "item", node in self.learns, own, size_of(op.facts["vocab"]) if op.run == "lookup" else 2)

    def as_made(self, op: Operation, i: int) -> bool:
        """Is it taken as another operator has made it?"""
        made = self.placed.values.get(op.operands[i])
        return made is not None and (op.run == "item" or alike(made[0], op.needs[i]))

    def key(self, op: Operation) -> dict[str, Any]:
        """All that its time depends on. Axes are known by their sizes, values by their place among the operands."""
        places = {node: i for i, node in enumerate(op.operands)}

        def plain(value: Any) -> Any:
            if isinstance(value, Value):
                return {"operand": places[value]}
            if isinstance(value, Atom):
                return [with_rows(value.size, self.rows), self.placed.mesh[value.axis] if value.axis is not None else 0]
            if isinstance(value, float) and not math.isfinite(value):  # JSON has no such numbers
                return repr(value)
            if isinstance(value, str):
                return self.placed.mesh.get(value, value)
            return for_rows(value, self.rows)

        told = [mapped(one, plain) for one in (op.call.args, op.call.kwargs, dict(op.facts))]
        return {
            "what": "operator",
            "target": op.call.target,
            "run": op.run,
            "told": packed(told),
            "sums": [self.placed.mesh[axis] for axis in op.sums],
            "places": [self.at[axis] for axis in self.placed.mesh] if op.facts.get("windows") and any(op.facts["windows"]) else [],
            "operands": [self.operand(op, i).to_json() for i in range(len(op.operands))],
            "gives": self.sizes(op),
            "code": our_code("parallel/split"),
        }

    def time(self, op: Operation, engine: float, effort: Effort) -> dict[str, Any]:
        """`forward` and `backward` as timings, and the share of the latter that can be left for later. Of an operator that does not work
        on numbers that mean nothing: what it takes to write its result, and `odd` says why."""
        try:
            return self._time(op, engine, effort)
        except Exception as error:  # whatever an operator may raise for numbers it did not expect
            rooms = [torch.empty(sizes) for sizes in self.sizes(op)]
            written = timed(lambda: [torch.zeros_like(room) for room in rooms], effort)
            again = written.to_json() if op.call.name in self.learns else None
            return {"forward": written.to_json(), "backward": again, "later": 0.0, "odd": f"{type(error).__name__}: {error}"}

    def _time(self, op: Operation, engine: float, effort: Effort) -> dict[str, Any]:
        values = {node: self.operand(op, i).made() for i, node in enumerate(op.operands)}
        run, here = KERNELS[op.run], self.here()
        deep = any(isinstance(one, list | tuple | dict) for one in op.call.args)

        def once(here: Here = here) -> Any:
            """As a Program does it."""
            operands = {node: values[node] for node in op.operands}
            if deep:
                args = mapped(op.call.args, lambda one: operands[one] if isinstance(one, Value) else one)
            else:
                args = [operands[one] if isinstance(one, Value) else one for one in op.call.args]
            return run(op, here, args, operands)

        forward = timed(once, effort)
        roots = [one for one in _listed(once()) if isinstance(one, Tensor) and one.requires_grad]
        leaves = [one for node in op.operands for one in _listed(values[node]) if one.requires_grad]
        if not roots or not leaves:
            return {"forward": forward.to_json(), "backward": None, "later": 0.0}
        backward = _back(roots, leaves, effort).less(engine)
        return {"forward": forward.to_json(), "backward": backward.to_json(), "later": self._later(op, values, once, engine, effort)}

    def _later(self, op: Operation, values: Mapping[Value, Any], once: Any, engine: float, effort: Effort) -> float:
        """The share of gradients of weights (weight_grads.py)."""
        weights = [values[node] for node in op.operands if node in self.placed.traced.tensors]
        if op.run not in APART or not weights or not all(one.requires_grad for one in weights):
            return 0.0
        store = WeightGradients(apart=True)
        roots = [one for one in _listed(once(self.here(store))) if one.requires_grad]
        inputs = [values[node] for node in op.operands if node not in self.placed.traced.tensors and values[node].requires_grad]
        torch.autograd.grad(roots, inputs or weights, [torch.ones_like(one) for one in roots], retain_graph=True, allow_unused=True)
        jobs = store.left()
        if not jobs:
            return 0.0

        def do_them() -> None:
            for one in weights:
                one.grad = None
            for job in jobs:
                job()

        later = timed(do_them, effort).low
        soon = _back(roots, inputs, effort, store).less(engine).low if inputs else 0.0
        return later / max(later + soon, 1e-12)


def _back(roots: Sequence[Tensor], leaves: Sequence[Tensor], effort: Effort, store: WeightGradients | None = None) -> Timing:
    grads = [torch.ones_like(one) for one in roots]

    def back() -> None:
        torch.autograd.grad(roots, leaves, grads, retain_graph=True, allow_unused=True)
        if store is not None:
            store.left()

    return timed(back, effort)


def engine_time(effort: Effort) -> float:
    """Seconds that a backward pass takes by itself: it is started once for a whole model, and here for every operator."""
    x = torch.ones(1, requires_grad=True)
    return _back([x.view_as(x)], [x], effort).low


def dry_lines(mesh: Mapping[str, int], at: At) -> dict[str, Line]:
    return {axis: DryLine(at[axis], size) for axis, size in mesh.items()}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
