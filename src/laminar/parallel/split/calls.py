"""Calls: a traced model as plain data. Operators by name, values by name, numbers; it can be sent as JSON to whoever has no trace.

What arrives is looked up in the tables of operators that a stored graph may use (model/graph_ops.py), never evaluated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

from laminar.model.graph_ops import operator_called
from laminar.parallel.split.dims import ROWS, Atom

ITEM: Final = "_operator.getitem"


class Value(str):
    """What an operator gives or takes, by name. No other text is one."""

    __slots__ = ()


@dataclass(frozen=True)
class Call:
    """An operator and its arguments, in which values stand by name."""

    name: Value
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    path: str  # of the innermost module that it comes from

    @property
    def function(self) -> Callable[..., Any]:
        return _function(self.target)

    @property
    def schema(self) -> Any:
        """Of an operator of torch."""
        found = self.function
        assert isinstance(found, OpOverload)
        return found._schema

    @cached_property
    def counts_rows(self) -> bool:
        """Is the number of rows of a batch, or a multiple of it, among its arguments?"""
        found: list[bool] = []
        mapped((self.args, self.kwargs), lambda one: found.append(isinstance(one, int) and bool(one) and one % ROWS == 0))
        return any(found)

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        found: list[Value] = []
        mapped((self.args, self.kwargs), lambda one: found.append(one) if isinstance(one, Value) else None)
        return tuple(dict.fromkeys(found))


@cache
def _function(target: str) -> Callable[..., Any]:
    return operator.getitem if target == ITEM else operator_called(target)


@dataclass(frozen=True)
class Traced:
    calls: list[Call]
    inputs: list[Value]
    tensors: dict[Value, str]  # parameters, buffers and constants by the model's own name
    constants: dict[str, Tensor]
    output: Value
    sizes: dict[Value, list[tuple[int, ...]]]  # of each result of each operator; ROWS (dims.py) stands for the rows of a batch
    dtypes: dict[Value, list[torch.dtype]]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with other leaves."""
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, change) for one in value)
    if isinstance(value, dict):
        return {key: mapped(one, change) for key, one in value.items()}
    return change(value)


def packed(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case Value():
            return {"value": str(value)}
        case Atom():
            return {"atom": [value.name, value.size, value.axis]}
        case tuple():
            return {"tuple": [packed(one) for one in value]}
        case list():
            return [packed(one) for one in value]
        case dict():
            return {"dict": [[packed(key), packed(one)] for key, one in value.items()]}
        case torch.dtype() | torch.layout() | torch.memory_format():
            return {"torch": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": str(value)}
        case Tensor():
            return {"tensor": [value.tolist(), str(value.dtype).removeprefix("torch."), list(value.shape)]}
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def unpacked(told: Any) -> Any:
    if isinstance(told, list):
        return [unpacked(one) for one in told]
    if not isinstance(told, dict):
        return told
    ((kind, inside),) = told.items()
    match kind:
        case "value":
            return Value(inside)
        case "atom":
            return Atom(*inside)
        case "tuple":
            return tuple(unpacked(one) for one in inside)
        case "dict":
            return {unpacked(key): unpacked(one) for key, one in inside}
        case "torch":
            return _of_torch(inside)
        case "device":
            return torch.device(inside)
        case "tensor":
            numbers, dtype, shape = inside
            return torch.tensor(numbers, dtype=_of_torch(dtype)).view(shape)
    raise TypeError(f"'{kind}' is nothing that is sent")


def _of_torch(name: str) -> Any:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
        raise TypeError(f"torch.{name} is nothing that is sent")
    return found
