"""Mixing: operators whose result for some rows of a batch depends on its other rows, found by running each on halves of some samples.

A pipeline runs micro-batches: what it gives is what one process gives only if every row is for itself. What is made of the number of rows
alone, as `arange(len(x))` is, begins anew in each micro-batch; whether that changes a result is seen where it is used: to take one number
of each row it does not, added to the rows it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from laminar.parallel.split.calls import Value, mapped
from laminar.parallel.split.dims import Dims
from laminar.parallel.split.kernels import Here, whole
from laminar.parallel.split.place import Operation
from laminar.parallel.stages.flow import Flow, draws, writes


@torch.no_grad()
def mixing(flow: Flow, tensors: Mapping[str, Tensor], examples: Sequence[Tensor]) -> list[Operation]:
    """Those that mix rows, in order. At least two samples are needed."""
    own = {name: tensor.detach().clone() if not isinstance(tensor, torch.nn.Parameter) else tensor for name, tensor in tensors.items()}
    own |= flow.placed.traced.constants
    traced, rows, found = flow.placed.traced, len(examples[0]), []
    values: dict[Value, Any] = dict(zip(traced.inputs, examples, strict=True))
    last = {node: i for i, op in enumerate(flow.operations) for node in op.operands}
    with torch.random.fork_rng(devices=[]):
        for i, op in enumerate(flow.operations):
            given = {node: values[node] if node in values else own[traced.tensors[node]] for node in op.operands}
            made = values[op.call.name] = _run(op, given, rows)
            by_itself = op.run == "item" or draws(op) or writes(op) or i in flow.anywhere
            if not by_itself and _mixes(flow, op, given, made, rows, own):
                found.append(op)
            for node in op.operands:
                if last[node] == i:
                    values.pop(node, None)
    return found


def _run(op: Operation, given: Mapping[Value, Any], rows: int) -> Any:
    args = mapped(op.call.args, lambda one: given[one] if isinstance(one, Value) else one)
    return args[0][args[1]] if op.run == "item" else whole(op, Here({}, {}, {}, rows=rows), args, dict(given))


class Place(NamedTuple):
    """Where the rows of a tensor are."""

    dim: int
    outer: int  # numbers of what is outside of them in that dimension


def _place(dims: Dims) -> Place | Literal["several"] | None:
    """None: there are no rows in it."""
    found = [Place(d, prod(one.size for one in dim[:k])) for d, dim in enumerate(dims) for k, atom in enumerate(dim) if atom.of_batch]
    return (found[0] if len(found) == 1 else "several") if found else None


def _anew(flow: Flow, node: Value, tensors: Mapping[str, Tensor], rows: int) -> Any:
    """What is made of the model's tensors and the number of rows, for so many."""
    maker = flow.maker.get(node)
    if maker is None:
        return tensors[flow.placed.traced.tensors[node]]
    op = flow.operations[maker]
    return _run(op, {operand: _anew(flow, operand, tensors, rows) for operand in op.operands}, rows)


def _mixes(flow: Flow, op: Operation, given: Mapping[Value, Any], made: Any, rows: int, tensors: Mapping[str, Tensor]) -> bool:
    samples = [
        node for node in given if node in flow.placed.values and not flow.several(node) and flow.maker.get(node) not in flow.anywhere
    ]
    taken = {node: _place(flow.placed.values[node][0]) for node in samples}
    outs = made if isinstance(made, list | tuple) else [made]
    places = [_place(dims) for dims in flow.placed.values[op.call.name]]
    if all(place is None for place in [*taken.values(), *places]):
        return op.call.counts_rows
    if "several" in [*taken.values(), *places] or None in places:  # rows times rows; or nothing is left of them
        return True
    half = rows // 2
    for begin, count in ((0, half), (half, rows - half)):
        some = {
            node: _anew(flow, node, tensors, count)
            if flow.maker.get(node) in flow.anywhere
            else _narrow(value, taken.get(node), begin, count, rows)
            for node, value in given.items()
        }
        try:
            part = _run(op, some, count)
        except Exception:  # it works with all rows only
            return True
        parts = part if isinstance(part, list | tuple) else [part]
        for one, out, place in zip(parts, outs, places, strict=True):
            if not _same(one, _narrow(out, place, begin, count, rows)):
                return True
    return False


def _narrow(value: Any, place: Any, begin: int, count: int, rows: int) -> Any:
    """Some rows of it."""
    if not isinstance(place, Place) or not isinstance(value, Tensor):
        return value
    dim, outer = place
    inner = value.shape[dim] // (outer * rows)
    apart = value.reshape(*value.shape[:dim], outer, rows, inner, *value.shape[dim + 1 :]).narrow(dim + 1, begin, count)
    return apart.reshape(*value.shape[:dim], outer * count * inner, *value.shape[dim + 1 :])


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True) if one.is_floating_point() else torch.equal(one, other)
