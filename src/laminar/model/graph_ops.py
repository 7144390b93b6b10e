"""Look up the operators of a stored graph, and check the arguments of each call: types and numbers against the operator's schema, and the
rest by the rules of graph_operators.py.

Arguments that do not depend on the run are checked when the graph is read, others before each call. A call with nothing left to check has
no extra cost.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload

from laminar.core.errors import LaminarError
from laminar.model.graph_ir import Attr, Ref
from laminar.model.graph_kernels import kernel_called
from laminar.model.graph_operators import ATEN, PRIMS, RULES, UNWRITTEN
from laminar.model.graph_rules import Get, Rule

LARGEST: Final = 1 << 40  # no size, position or count of a model is so large; beyond 2^62 sums of them overflow in some operators
_ANY_NUMBER: Final = frozenset({"start", "end", "low", "high"})  # "to the end" is written as the largest integer there is

Check = Callable[[Sequence[Any], Mapping[str, Any]], None]


def overloads(table: str) -> frozenset[str]:
    """`add_?.Tensor|Scalar relu` -> add.Tensor, add.Scalar, add_.Tensor, add_.Scalar, relu.default."""
    found: set[str] = set()
    for entry in table.split():
        name, _, tails = entry.partition(".")
        names = [name.removesuffix("_?"), name[:-1]] if name.endswith("_?") else [name]
        found.update(f"{one}.{tail}" for one in names for tail in (tails or "default").split("|"))
    return frozenset(found)


ALLOWED: Final = frozenset(
    f"torch.ops.{space}.{overload}" for space, table in (("aten", ATEN), ("prims", PRIMS)) for overload in overloads(table)
)


def _on_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic on sizes, and on nothing else: `*` of a list would repeat it, and Python's integers grow without end."""

    def called(*values: Any) -> Any:
        if not all(isinstance(value, _NUMBERS) for value in values):
            raise LaminarError("L207", f"the graph calculates with a {type(values[0]).__name__} as if it were a size", hint=_HINT)
        result = function(*values)
        if type(result) is int and abs(result) >= 1 << 63:
            raise LaminarError("L207", "the graph calculates a size that is too large for any tensor", hint=_HINT)
        return result

    return called


_NUMBERS: Final = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
_HINT: Final = "take layers from people you trust only; if it is yours, build the layer where its source code is"

# Arithmetic on sizes: the only plain Python functions a graph may call.
NUMBERS: Final[dict[str, Callable[..., Any]]] = {
    **{f"_operator.{f.__name__}": _on_numbers(f) for f in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)},
    **{f"_operator.{f.__name__}": _on_numbers(f) for f in (operator.neg, operator.truediv, operator.pos, operator.eq, operator.ne)},
    **{f"_operator.{f.__name__}": _on_numbers(f) for f in (operator.lt, operator.le, operator.gt, operator.ge, operator.and_)},
    **{f"torch.{f.__name__}": _on_numbers(f) for f in (torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not)},
    "math.trunc": _on_numbers(math.trunc),
    "torch.sym_ite": _on_numbers(torch.sym_ite),
}
SIZES: Final = frozenset({"torch.ops.aten.sym_size.int", "torch.ops.aten.sym_numel.default"})

# Checks that tracing wrote down. They hold for the traced device and range of sizes only, and compute nothing.
ASSERTS: Final = frozenset(
    {
        "torch.ops.aten._assert_async.msg",
        "torch.ops.aten._assert_scalar.default",
        "torch.ops.aten._assert_tensor_metadata.default",
        "torch.ops.aten.sym_constrain_range.default",
        "torch.ops.aten.sym_constrain_range_for_size.default",
    }
)
TRACEPOINT: Final = "torch.ops.higher_order._export_tracepoint"  # marks arguments and results of a module call; gives back what it gets
NO_GRAD: Final = "torch.ops.higher_order.wrap_with_set_grad_enabled"

_TARGET: Final = re.compile(r"torch\.ops\.(aten|prims)\.([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")


@cache
def operator_called(target: str) -> Callable[..., Any]:
    """The function behind a node's target; L207 for one that is not in the tables, L706 for a kernel that is not here."""
    if target in NUMBERS:
        return NUMBERS[target]
    fits = _TARGET.fullmatch(target)
    if fits is not None and target in ALLOWED:
        space, name, overload = fits.groups()
        found = getattr(getattr(getattr(torch.ops, space), name, None), overload, None)
        if isinstance(found, OpOverload):
            return found
    kernel = kernel_called(target)
    if kernel is not None:
        return kernel
    raise LaminarError(
        "L207", f"the graph calls '{target[:120]}', which is not among the operators that a stored graph may use", hint=_HINT
    )


def ready_to_call(target: str) -> Callable[..., Any]:
    """The function that a graph calls: an operator that would return uninitialised memory returns zeros."""
    function = operator_called(target)
    fits = _TARGET.fullmatch(target)
    if fits is None or fits[2] not in UNWRITTEN:
        return function
    return lambda *args, **named: function(*args, **named).zero_()


def check_of(target: str, args: Sequence[Any], named: Mapping[str, Any]) -> Check | None:
    """Check the arguments that are known now, and return a check for the others, or None. Values of the run are Ref and Attr.
    Raises L207."""
    function = operator_called(target)
    if not isinstance(function, OpOverload):
        return None
    parameters = _parameters(function)
    if len(args) > len(parameters) or any(name not in parameters for name in named):
        raise _refused(target, f"it takes {', '.join(parameters)}")
    places: dict[str, int] = dict(zip(parameters, range(len(args)), strict=False))
    later: list[tuple[str, int | None, _Kind]] = []
    needed: list[tuple[str, int | None]] = []
    for name, value in [*zip(parameters, args, strict=False), *named.items()]:
        kind = parameters[name]
        if not kind.takes(value):
            raise _refused(target, f"its argument {name} cannot be {_shown(value)}")
        if kind.of_numbers and _depends(value):
            later.append((name, places.get(name), kind))
        elif isinstance(value, Ref) and kind.word == "Tensor" and not kind.optional:
            needed.append((name, places.get(name)))
    rules = RULES.get(function._schema.name.partition("::")[2].removesuffix("_"), ())
    if not later and not rules:
        return _none_check(target, needed) if needed else None
    return _checker(target, later, needed, rules, places, {name: kind.default for name, kind in parameters.items()})


def _none_check(target: str, needed: Sequence[tuple[str, int | None]]) -> Check:
    """Refuse None, which PyTorch accepts as a tensor and some operators dereference. Most calls need only this check, so it is quick."""

    def check(args: Sequence[Any], named: Mapping[str, Any]) -> None:
        for name, place in needed:
            if (named[name] if place is None else args[place]) is None:
                raise _refused(target, f"its argument {name} cannot be None")

    return check


def _checker(
    target: str,
    later: list[tuple[str, int | None, _Kind]],
    needed: list[tuple[str, int | None]],
    rules: Sequence[Rule],
    places: Mapping[str, int],
    defaults: Mapping[str, Any],
) -> Check:
    whole = _none_check(target, needed)

    def check(args: Sequence[Any], named: Mapping[str, Any]) -> None:
        whole(args, named)
        for name, place, kind in later:
            value = named[name] if place is None else args[place]
            if not kind.takes(value):
                raise _refused(target, f"its argument {name} cannot be {_shown(value)}")
        if rules:

            def get(name: str) -> Any:
                return args[places[name]] if name in places else named.get(name, defaults.get(name))

            for rule in rules:
                if complaint := _complaint(rule, get):
                    raise _refused(target, complaint)

    return check


def _complaint(rule: Rule, get: Get) -> str | None:
    try:
        return rule(get)
    except (AttributeError, TypeError, ValueError, IndexError, OverflowError) as error:  # something else where a tensor is needed
        return f"it cannot take one of its arguments ({str(error)[:80]})"


def _refused(target: str, complaint: str) -> LaminarError:
    return LaminarError(
        "L207", f"the graph calls '{target.removeprefix('torch.ops.')[:120]}' with wrong arguments: {complaint}", hint=_HINT
    )


def _shown(value: Any) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)[:60]


# Kinds of arguments, by the names that schemas have for them


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.SymInt) or (isinstance(value, int) and -LARGEST < value < LARGEST)


_WORDS: Final[dict[str, Callable[[Any], bool]]] = {
    "Tensor": lambda value: isinstance(value, Tensor | int | float | complex | torch.SymInt | torch.SymFloat),
    "int": _is_int,
    "number": lambda value: isinstance(value, int | float | complex | torch.SymInt | torch.SymFloat | torch.SymBool),
    "float": lambda value: isinstance(value, int | float | torch.SymInt | torch.SymFloat),
    "bool": lambda value: isinstance(value, bool | torch.SymBool),
    "str": lambda value: isinstance(value, str),
    "ScalarType": lambda value: isinstance(value, torch.dtype),
    "Layout": lambda value: value is torch.strided,
    "Device": lambda value: isinstance(value, torch.device),
    "MemoryFormat": lambda value: isinstance(value, torch.memory_format),
}
_OF_THE_RUN: Final = frozenset({"Tensor", "int", "number", "float", "bool"})  # kinds that a value of the run can be
_KIND: Final = re.compile(r"(Optional\[)?(List\[)?(Optional\[)?(\w+)\]*")


class _Kind(NamedTuple):
    """The values that an argument may have."""

    optional: bool
    listed: bool
    gaps: bool  # None among the items
    word: str
    any_number: bool
    default: Any

    @property
    def of_numbers(self) -> bool:
        return self.word not in ("Tensor", "Generator")

    def takes(self, value: Any) -> bool:
        if value is None:
            return self.optional or self.word == "Generator"
        if isinstance(value, Ref | Attr):
            return self.word in _OF_THE_RUN
        if self.listed and isinstance(value, list | tuple):
            return all(self._fits(item) or (self.gaps and item is None) for item in value)
        return self._fits(value)  # one integer may stand for a list of them

    def _fits(self, value: Any) -> bool:
        if isinstance(value, Ref | Attr):
            return self.word in _OF_THE_RUN
        if self.any_number and isinstance(value, int):
            return True
        test = _WORDS.get(self.word)
        return test is not None and test(value)


@cache
def _parameters(function: OpOverload) -> dict[str, _Kind]:
    kinds: dict[str, _Kind] = {}
    for argument in function._schema.arguments:
        fits = _KIND.fullmatch(str(argument.real_type))
        optional, listed, gaps, word = fits.groups() if fits is not None else (None, None, None, "unknown")
        default = argument.default_value if argument.has_default_value() else None
        kinds[argument.name] = _Kind(bool(optional), bool(listed), bool(gaps), word, argument.name in _ANY_NUMBER, default)
    return kinds


def _depends(value: Any) -> bool:
    return isinstance(value, Ref | Attr) or (isinstance(value, list | tuple) and any(map(_depends, value)))
