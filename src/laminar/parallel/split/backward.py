"""Backward: which operands of each operator receive gradients, and which values of a model receive any.

The exchanges of the backward pass depend on this. A tensor receives no gradient if only its sizes or type are used (`expand_as`), if it
was detached, or if it never reaches the output. The answers come from torch's autograd, run on tensors with sizes and no data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from laminar.parallel.split.calls import ITEM, Call, Traced, Value, for_rows, mapped

_ROWS = 3  # rows of a trial batch


@dataclass(frozen=True)
class Back:
    """The results of an operator that have a gradient, and the operands that receive gradients from them."""

    results: tuple[bool, ...]
    operands: frozenset[Value]


def give_back(traced: Traced) -> dict[Value, Back]:
    """The gradients of each operator, if all operands that can require gradients do."""
    assert traced.sizes or not traced.calls, "sizes are not sent along with a model"
    return {call.name: _of_call(traced, call) for call in traced.calls}


def _of_call(traced: Traced, call: Call) -> Back:
    can = tuple(dtype.is_floating_point or dtype.is_complex for dtype in traced.dtypes[call.name])
    if call.target == ITEM:
        return Back(can, frozenset(call.operands))
    if not any(can):
        return Back(can, frozenset())
    try:
        with torch.enable_grad():
            return _tried(traced, call)
    except Exception:  # it cannot run without data: assume that every operand that could receive a gradient does
        float_ones = [node for node in call.operands if all(dtype.is_floating_point for dtype in traced.dtypes[node])]
        return Back(can, frozenset(float_ones))


def _tried(traced: Traced, call: Call) -> Back:
    written = set(call.written)
    operands: dict[Value, Tensor] = {}
    for node in call.operands:
        (sizes,), (dtype,) = traced.sizes[node], traced.dtypes[node]
        empty = torch.empty([for_rows(size, _ROWS) for size in sizes], dtype=dtype, device="meta")
        operands[node] = empty.requires_grad_(dtype.is_floating_point and node not in written)

    def given(value: Any) -> Any:
        return operands[value] if isinstance(value, Value) else for_rows(value, _ROWS)

    results = call.function(*mapped(tuple(call.args), given), **mapped(call.kwargs, given))
    listed = list(results) if isinstance(results, list | tuple) else [results]
    reached = _leaves_behind([one.grad_fn for one in listed if one.grad_fn is not None])
    direct = {id(one) for one in listed}  # an operator that returns an operand itself
    own = {node for node, tensor in operands.items() if tensor.requires_grad and (id(tensor) in reached or id(tensor) in direct)}
    return Back(tuple(one.requires_grad for one in listed), frozenset(own))


def _leaves_behind(functions: Sequence[Any]) -> set[int]:
    """The tensors to which autograd would deliver gradients."""
    found: set[int] = set()
    ahead, seen = list(functions), set(functions)
    while ahead:
        function = ahead.pop()
        if (variable := getattr(function, "variable", None)) is not None:
            found.add(id(variable))
        for following, _ in function.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                ahead.append(following)
    return found


@dataclass(frozen=True)
class Gradients:
    """The values among some operators that require a gradient, and those that receive one."""

    learns: frozenset[Value]
    wanted: frozenset[Value]

    def reaches(self, traced: Traced, call: Call, operand: Value) -> bool:
        """Whether the operator returns a gradient to this operand."""
        return call.name in self.wanted and operand in self.learns and operand in traced.back[call.name].operands


def gradients(
    traced: Traced,
    calls: Iterable[Call],
    trains: Callable[[str], bool],
    roots: Collection[Value],
    taken: Mapping[Value, bool] | None = None,
) -> Gradients:
    """`roots`: where gradients begin. `taken`: whether values that come from outside require gradients."""
    some = list(calls)
    learns = {node for node, name in traced.tensors.items() if trains(name)}
    learns |= {node for node, asked in (taken or {}).items() if asked}
    for call in some:
        back = traced.back[call.name]
        can = any(back.results) if call.target != ITEM else traced.dtypes[call.name][0].is_floating_point
        if can and any(node in learns for node in back.operands):
            learns.add(call.name)
    wanted = {root for root in roots if root in learns}
    for call in reversed(some):
        if call.name in wanted:
            wanted |= {node for node in traced.back[call.name].operands if node in learns}
    return Gradients(frozenset(learns), frozenset(wanted))
