"""Expressions of constants, computed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from laminar.kernels.language.tree import WHOLE, Binary, Cast, Choice, Constant, Expression, Unary
from laminar.kernels.language.types import converted

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": lambda left, right: bool(left and right),
    "or": lambda left, right: bool(left or right),
}


def folded(expression: Expression) -> Constant | None:
    """Its value, if it is made of constants and whole numbers."""
    match expression:
        case Constant():
            return expression
        case Cast(at, type_, value):
            inner = folded(value)
            return Constant(at, type_, converted(inner.value, type_)) if inner else None
        case Unary(at, type_, sign, value):
            inner = folded(value)
            if inner is None:
                return None
            result: Any = -inner.value if sign == "-" else not inner.value if sign == "!" else ~int(inner.value)
            return Constant(at, type_, converted(result, type_))
        case Choice(condition=condition, yes=yes, no=no):
            test = folded(condition)
            return None if test is None else folded(yes if test.value else no)
        case Binary(at, type_, sign, left, right):
            one, other = folded(left), folded(right)
            if one is None or other is None or (left.type not in WHOLE and sign in "/%"):
                return None
            return Constant(at, type_, converted(_computed(sign, one.value, other.value, 32 if type_ == "int" else 64), type_))
    return None


def size_value(expression: Expression) -> int | None:
    """The number that a size is: computed with 64 bits, whatever the types of its parts."""
    match expression:
        case Cast(value=value) if expression.type in WHOLE and value.type in WHOLE:
            return size_value(value)
        case Unary(operator="-" | "~" as sign, value=value) if expression.type in WHOLE:
            inner = size_value(value)
            return None if inner is None else int(converted(-inner if sign == "-" else ~inner, "long"))
        case Binary(operator="+" | "-" | "*" | "/" | "%" as sign, left=left, right=right) if expression.type in WHOLE:
            one, other = size_value(left), size_value(right)
            return None if one is None or other is None else int(converted(_computed(sign, one, other, 64), "long"))
    known = folded(expression)
    return None if known is None else int(known.value)


def exact(expression: Expression) -> int | None:
    """The whole number that it would be if none were too large for its type."""
    match expression:
        case Cast(value=value) if expression.type in WHOLE and value.type in WHOLE:
            return exact(value)
        case Unary(operator="-", value=value) if expression.type in WHOLE:
            inner = exact(value)
            return None if inner is None else -inner
        case Binary(operator="+" | "-" | "*" as sign, left=left, right=right) if expression.type in WHOLE:
            one, other = exact(left), exact(right)
            return None if one is None or other is None else int(_OPERATORS[sign](one, other))
    known = folded(expression)
    return int(known.value) if known is not None and known.type in WHOLE else None


def _computed(sign: str, left: Any, right: Any, bits: int) -> Any:
    if sign == "/":
        return 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    if sign == "%":
        return 0 if right == 0 else abs(left) % abs(right) * (1 if left >= 0 else -1)
    if sign == "<<":
        return left << (right & (bits - 1))
    if sign == ">>":
        return left >> (right & (bits - 1))
    return _OPERATORS[sign](left, right)
