"""Calls: a traced model as plain data. Operators by name, values by name, numbers; it can be sent as JSON to whoever has no trace.

What arrives is looked up in the tables of operators that a stored graph may use (model/graph_ops.py), never evaluated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

from laminar.model.graph_ops import NUMBERS, operator_called
from laminar.parallel.split.dims import ROWS, Atom, with_rows

if TYPE_CHECKING:
    from laminar.parallel.split.backward import Back

ITEM: Final = "_operator.getitem"
ROWS_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {**NUMBERS, "_operator.pow": operator.pow}  # what numbers of rows go through


class Value(str):
    """What an operator gives or takes, by name. No other text is one."""

    __slots__ = ()


@dataclass(frozen=True)
class RowsNumber:
    """A number that is worked out of the rows of a batch, as their square root is. Sizes that are multiples of ROWS are plain integers."""

    target: str
    args: tuple[Any, ...]

    def of(self, rows: int) -> Any:
        return ROWS_ARITHMETIC[self.target](*mapped(self.args, lambda value: for_rows(value, rows)))


def for_rows(value: Any, rows: int) -> Any:
    """An argument of an operator for a batch of so many rows."""
    if isinstance(value, RowsNumber):
        return value.of(rows)
    return with_rows(value, rows) if isinstance(value, int) and not isinstance(value, bool) and value else value


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
    def arguments(self) -> dict[str, Any]:
        """All arguments of an operator of torch by name, with their defaults where nothing was given."""
        schema = self.schema.arguments
        defaults = {one.name: one.default_value for one in schema if one.has_default_value()}
        return defaults | dict(zip([one.name for one in schema], self.args, strict=False)) | self.kwargs

    @cached_property
    def written(self) -> tuple[Value, ...]:
        """Values that an operator of torch writes into."""
        if not isinstance(self.function, OpOverload):
            return ()
        targets = [one.name for one in self.schema.arguments if one.alias_info is not None and one.alias_info.is_write]
        return tuple(value for name in targets for value in leaves(self.arguments.get(name)) if isinstance(value, Value))

    @cached_property
    def counts_rows(self) -> bool:
        """Is the number of rows of a batch, or one that follows from it, among its arguments?"""
        return self.counts_rows_oddly or any(
            isinstance(one, int) and not isinstance(one, bool) and bool(one) and one % ROWS == 0 for one in leaves([self.args, self.kwargs])
        )

    @cached_property
    def counts_rows_oddly(self) -> bool:
        """Is a number that follows from them, and is no multiple, among its arguments?"""
        return any(isinstance(one, RowsNumber) for one in leaves([self.args, self.kwargs]))

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys(one for one in leaves([self.args, self.kwargs]) if isinstance(one, Value)))


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

    @cached_property
    def back(self) -> dict[Value, Back]:
        """To which of its operands each operator gives gradients back. Not of a model that was sent, which has no sizes."""
        from laminar.parallel.split.backward import give_back

        return give_back(self)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with other leaves."""
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, change) for one in value)
    if isinstance(value, dict):
        return {key: mapped(one, change) for key, one in value.items()}
    return change(value)


def leaves(value: Any) -> list[Any]:
    """All that is in a nest."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def packed(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case Value():
            return {"value": str(value)}
        case Atom():
            return {"atom": [value.name, value.size, value.axis]}
        case RowsNumber():
            return {"rows": [value.target, packed(value.args)]}
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
        case "rows":
            target, args = inside
            return RowsNumber(target, unpacked(args))
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
