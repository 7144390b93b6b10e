"""Sizes that tell values. A size may be a number or one of torch's symbols: none is looked at, which would make a number of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.kernels.language.tree import Binary, Cast, Constant, Expression, Object, Read, Unary, Variable, walk

if TYPE_CHECKING:
    from laminar.kernels.operator.routine import Routine


def solved(routine: Routine, arrays: Sequence[Tensor], values: Sequence[Any], count: Any) -> tuple[tuple[Any, ...], Any]:
    """(values in order, number of instances), with what was None worked out."""
    kernel = routine.kernel
    known: dict[Any, Any] = {one.of: value for one, value in zip(kernel.values, values, strict=True) if value is not None}
    if count is not None:
        known[kernel.count] = count
    pairs: list[tuple[Expression, Any]] = []
    for name, tensor in zip(routine.given, arrays, strict=True):
        if name in routine.flat:
            known.setdefault(kernel.count, tensor.numel())
        elif len(routine.objects[name].shape) == tensor.dim():  # an adjoint by hand may see all elements in a row
            pairs.extend(zip(routine.objects[name].shape, tensor.shape, strict=True))
    for _ in pairs:
        for wanted, has in pairs:
            unknown = {part.variable for part in walk(wanted) if isinstance(part, Read) and part.variable not in known}
            if len(unknown) == 1 and (found := _inverse(wanted, next(iter(unknown)), has, known)) is not None:
                known[next(iter(unknown))] = found
    missing = [one.name for one in kernel.values if one.of not in known]
    if missing:
        raise LaminarError("L702", f"{routine.name}: no size tells the value `{missing[0]}`", hint=f"{missing[0]}=… in the call")
    if kernel.count not in known:
        known[kernel.count] = instances(routine, known)
    return tuple(known[one.of] for one in kernel.values), known[kernel.count]


def instances(routine: Routine, known: dict[Any, Any]) -> Any:
    """How many there are if nobody says."""
    kernel = routine.kernel
    if kernel.instances is not None:
        return size(kernel.instances, known)
    first = next(one.of for one in kernel.arrays if one.mode != "in" and isinstance(one.of, Object))
    made: Any = 1
    for one in first.shape:
        made = made * size(one, known)
    return made


def _inverse(wanted: Expression, variable: Variable, has: Any, known: dict[Any, Any]) -> Any:
    """The variable's value if `wanted` is `has`."""
    match wanted:
        case Read():
            return has
        case Cast():
            return _inverse(wanted.value, variable, has, known)
        case Binary():
            left = any(isinstance(part, Read) and part.variable is variable for part in walk(wanted.left))
            right = any(isinstance(part, Read) and part.variable is variable for part in walk(wanted.right))
            if left and right:
                return None
            side, other = (wanted.left, wanted.right) if left else (wanted.right, wanted.left)
            by = size(other, known)
            match wanted.operator:
                case "+":
                    return _inverse(side, variable, has - by, known)
                case "-":
                    return _inverse(side, variable, has + by if left else by - has, known)
                case "*":
                    return _inverse(side, variable, has // by, known)
    return None


def size(one: Expression, known: dict[Any, Any]) -> Any:
    """A size's value; of symbols, too."""
    match one:
        case Constant():
            return one.value
        case Read():
            return known[one.variable]
        case Cast():
            return size(one.value, known)
        case Unary(operator="-"):
            return -size(one.value, known)
        case Binary():
            left, right = size(one.left, known), size(one.right, known)
            match one.operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/" | "%" if isinstance(left, int) and isinstance(right, int):
                    return _divided(one.operator, left, right)
                case "/":
                    return left // right
                case "%":
                    return left % right
    raise AssertionError(f"{type(one).__name__} in a size")  # K13


def _divided(operator: str, left: int, right: int) -> int:
    """As native code does it: towards zero, and 0 by 0."""
    quotient = 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "/" else left - quotient * right if right else 0
