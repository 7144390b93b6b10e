"""Patterns: how the values of a model lie in memory, and what of them stays there until the backward pass; seen by running it once.

Few rows are enough, and nothing need be split: whether a value is transposed, a piece of a larger one or stretched does not depend on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, mapped
from laminar.parallel.split.kernels import KERNELS, Here
from laminar.parallel.stages.flow import Flow

Sizes = Sequence[int]


@dataclass(frozen=True)
class Pattern:
    """Dimensions from the innermost to the outermost, each with how much further apart its steps are than they need be; and those that
    all steps of which are one and the same."""

    order: tuple[tuple[int, float], ...]
    stretched: tuple[int, ...] = ()

    def strides(self, sizes: Sizes) -> tuple[int, ...]:
        found, running = [0] * len(sizes), 1
        for dim, gap in self.order:
            found[dim] = max(1, round(running * gap))
            running = found[dim] * sizes[dim]
        return tuple(found)


def pattern_of(tensor: Tensor) -> Pattern | None:
    """None: one number after the other."""
    if tensor.is_contiguous():
        return None
    sizes, strides = tensor.shape, tensor.stride()
    stretched = tuple(d for d in range(tensor.ndim) if strides[d] == 0 and sizes[d] > 1)
    # dimensions of one step say nothing: they stay where they were
    rest = sorted((d for d in range(tensor.ndim) if d not in stretched), key=lambda d: (strides[d] if sizes[d] > 1 else 0, -d))
    order, running = list[tuple[int, float]](), 1
    for d in rest:
        gap = max(1.0, strides[d] / running) if sizes[d] > 1 else 1.0
        order.append((d, gap))
        running = round(running * gap) * sizes[d]
    return Pattern(tuple(order), stretched)


def laid(sizes: Sizes, dtype: torch.dtype, pattern: Pattern | None) -> Tensor:
    """A tensor of these sizes, laid out so. What is in it is not said."""
    if pattern is None or len(pattern.order) + len(pattern.stretched) != len(sizes):
        return torch.empty(tuple(sizes), dtype=dtype)
    own = [1 if d in pattern.stretched else size for d, size in enumerate(sizes)]
    return torch.empty_strided(own, pattern.strides(own), dtype=dtype).expand(*sizes)


@dataclass(frozen=True)
class Seen:
    patterns: Mapping[Value, list[Pattern | None]]  # of each tensor of each value
    kept: Sequence[float]  # of each operator: bytes that stay until its backward pass, by those of its result


def look(flow: Flow, tensors: Mapping[str, Tensor], examples: Sequence[Tensor]) -> Seen:
    """Nothing of the model is changed: operators that write do so into copies."""
    own = {name: _copy(tensor, learns=flow_learns) for name, tensor, flow_learns in _named(flow, tensors)}
    traced = flow.placed.traced
    here = Here({}, {}, {}, rows=len(examples[0]), draw=1)
    values: dict[Value, Any] = dict(zip(traced.inputs, examples, strict=True))
    patterns = {node: [pattern_of(value)] for node, value in values.items()}
    saved = list[Tensor]()
    maker: dict[int, int] = {}  # the operator that made a piece of memory; -1: it was there before
    for tensor in [*own.values(), *examples]:
        maker[_place(tensor)] = -1
    stays: dict[int, set[int]] = {}  # by operator: pieces of memory of its making that stay
    sizes: dict[int, int] = {}
    held = list[Any]()  # memory that is given free would be used again, and be taken for what was there before

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor.detach()

    given = []
    with torch.random.fork_rng(devices=[]), torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        for i, op in enumerate(flow.operations):
            operands = {node: values[node] if node in values else own[traced.tensors[node]] for node in op.operands}
            args = mapped(op.call.args, lambda one: operands[one] if isinstance(one, Value) else one)  # noqa: B023
            found = KERNELS[op.run](op, here, args, operands)
            values[op.call.name] = found
            several = list(found) if isinstance(found, list | tuple) else [found]
            patterns[op.call.name] = [pattern_of(one) for one in several]
            given.append(sum(one.nbytes for one in several))
            for tensor in [*several, *saved]:
                place = _place(tensor)
                sizes[place] = tensor.untyped_storage().nbytes()
                maker.setdefault(place, i)
            for tensor in saved:
                if maker[_place(tensor)] >= 0:
                    stays.setdefault(maker[_place(tensor)], set()).add(_place(tensor))
            held += [several, list(saved)]
            saved.clear()
    kept = [sum(sizes[place] for place in stays.get(i, ())) / max(1, size) for i, size in enumerate(given)]
    return Seen(patterns, kept)


def _named(flow: Flow, tensors: Mapping[str, Tensor]) -> list[tuple[str, Tensor, bool]]:
    names = flow.placed.traced.tensors
    return [(name, tensors[name], node in flow.learns) for node, name in names.items()]


def _copy(tensor: Tensor, *, learns: bool) -> Tensor:
    """The memory of what is only read is shared."""
    if isinstance(tensor, torch.nn.Parameter):
        return tensor.detach().requires_grad_(learns and tensor.is_floating_point())
    return tensor.detach().clone()


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
