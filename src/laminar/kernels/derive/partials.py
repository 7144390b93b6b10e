"""Derivatives of expressions: from what the result adds to the gradients to what its parts add.

`spread(e, d)` emits statements for: the gradient of every part p of e grows by d * de/dp. Values that derivatives share are computed
once, into variables. Branches (`?:`, fmax) become statements, so that a side that is not taken is not computed either: 0 * infinity is
no 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from laminar.kernels.derive.active import Data, depends
from laminar.kernels.language.tree import (
    Assign,
    Binary,
    Call,
    Cast,
    Choice,
    Constant,
    Declare,
    Expression,
    If,
    Load,
    Read,
    Statement,
    Unary,
    Variable,
)
from laminar.kernels.language.types import cast, to_float

Emit = list[Statement]
Leaf = Callable[[Read | Load, Expression, Emit], None]


class Spread:
    """`leaf(part, d, out)`: what becomes of a variable's or an element's share. Of one statement: `values` are those computed already."""

    def __init__(self, active: frozenset[Data], leaf: Leaf) -> None:
        self.active, self.leaf = active, leaf
        self.values: dict[int, Variable] = {}

    def spread(self, one: Expression, share: Expression, out: Emit) -> None:
        if not depends(one, self.active):
            return
        match one:
            case Read() | Load():
                self.leaf(one, share, out)
            case Unary():
                self.spread(one.value, negative(share), out)
            case Cast():
                self.spread(one.value, cast(share, one.value.type), out)
            case Choice():
                share = self.named(share, out)
                self.branch(one.condition, [(one.yes, share)], [(one.no, share)], out)
            case Binary():
                self.binary(one, share, out)
            case Call():
                self.call(one, share, out)

    def binary(self, one: Binary, share: Expression, out: Emit) -> None:
        both = depends(one.left, self.active) and depends(one.right, self.active)
        share = self.named(share, out) if both else share
        if one.operator in ("+", "-"):
            self.spread(one.left, share, out)
            self.spread(one.right, share if one.operator == "+" else negative(share), out)
        elif one.operator == "*":
            left, right = self.value(one.left, out), self.value(one.right, out)
            self.spread(one.left, times(share, right), out)
            self.spread(one.right, times(share, left), out)
        else:
            right = self.value(one.right, out)
            part = self.named(over(share, right), out)
            self.spread(one.left, part, out)
            if depends(one.right, self.active):
                self.spread(one.right, negative(times(part, self.value(one, out))), out)

    def call(self, one: Call, share: Expression, out: Emit) -> None:
        if sum(depends(argument, self.active) for argument in one.arguments) > 1:
            share = self.named(share, out)
        if one.name in ("fmax", "fmin"):
            left, right = (self.value(argument, out) for argument in one.arguments)
            test = Binary(one.at, "bool", ">" if one.name == "fmax" else "<", left, right)
            share = self.named(share, out)
            self.branch(test, [(one.arguments[0], share)], [(one.arguments[1], share)], out)
            return
        for number, argument in enumerate(one.arguments):
            if depends(argument, self.active):
                self.spread(argument, self.slope(one, number, share, out), out)

    def slope(self, one: Call, number: int, share: Expression, out: Emit) -> Expression:
        """share * d one / d argument."""
        x = self.value(one.arguments[0], out)
        if len(one.arguments) == 1:
            return _OF_ONE[one.name](share, x, lambda: self.value(one, out))
        y = self.value(one.arguments[1], out)
        return _OF_MORE[one.name, number](share, x, y, lambda: self.value(one, out))

    def branch(
        self, test: Expression, then: list[tuple[Expression, Expression]], other: list[tuple[Expression, Expression]], out: Emit
    ) -> None:
        test = self.named(test, out)
        sides: list[Emit] = [[], []]
        before = dict(self.values)
        for side, pairs in zip(sides, (then, other), strict=True):
            for part, share in pairs:
                self.spread(part, share, side)
            self.values = dict(before)
        if sides[0] or sides[1]:
            out.append(If(test.at, test, tuple(sides[0]), tuple(sides[1])))

    def value(self, one: Expression, out: Emit) -> Expression:
        """The expression's value; what takes long to compute is computed once."""
        if isinstance(one, Constant | Read | Load):
            return one
        found = self.values.get(id(one))
        if found is None:
            made = self.inside(one, out)
            found = self.values[id(one)] = Variable("value", one.type, one.at)
            out += [Declare(one.at, found), Assign(one.at, found, made)]
        return Read(one.at, found)

    def inside(self, one: Expression, out: Emit) -> Expression:
        """The expression, with what takes long and is always computed in variables of its own."""
        match one:
            case Call():
                return replace(one, arguments=tuple(self.costly(part, out) for part in one.arguments))
            case Unary() | Cast():
                return replace(one, value=self.costly(one.value, out))
            case Binary() if one.operator not in ("and", "or"):
                return replace(one, left=self.costly(one.left, out), right=self.costly(one.right, out))
        return one

    def costly(self, one: Expression, out: Emit) -> Expression:
        if isinstance(one, Call) or (isinstance(one, Binary) and one.operator == "/") or id(one) in self.values:
            return self.value(one, out)
        return self.inside(one, out)

    def named(self, share: Expression, out: Emit) -> Expression:
        if isinstance(share, Constant | Read):
            return share
        variable = Variable("test" if share.type == "bool" else "d", share.type, share.at)
        out += [Declare(share.at, variable), Assign(share.at, variable, share)]
        return Read(share.at, variable)


def number(value: float, like: Expression) -> Constant:
    return Constant(like.at, like.type, to_float(value) if like.type == "float" else value)


def negative(one: Expression) -> Expression:
    return one.value if isinstance(one, Unary) and one.operator == "-" else Unary(one.at, one.type, "-", one)


def times(left: Expression, right: Expression) -> Expression:
    return Binary(left.at, left.type, "*", left, right)


def over(left: Expression, right: Expression) -> Expression:
    return Binary(left.at, left.type, "/", left, right)


def plus(left: Expression, right: Expression) -> Expression:
    return Binary(left.at, left.type, "+", left, right)


def minus(left: Expression, right: Expression) -> Expression:
    return Binary(left.at, left.type, "-", left, right)


def _call(name: str, *arguments: Expression) -> Expression:
    return Call(arguments[0].at, arguments[0].type, name, arguments)


def _compare(left: Expression, operator: str, right: Expression) -> Expression:
    return Binary(left.at, "bool", operator, left, right)  # type: ignore[arg-type]


def _sign(x: Expression, share: Expression) -> Expression:
    zero = number(0.0, x)
    below = Choice(x.at, _compare(x, "<", zero), negative(share), number(0.0, share))
    return Choice(x.at, _compare(x, ">", zero), share, below)


def _power(share: Expression, x: Expression, y: Expression, _: Value) -> Expression:
    if isinstance(y, Constant) and y.value == 2:
        return times(share, times(number(2.0, x), x))
    slope = times(y, _call("pow", x, minus(y, number(1.0, y))))
    if isinstance(y, Constant):
        return times(share, slope)
    return Choice(x.at, _compare(y, "==", number(0.0, y)), number(0.0, share), times(share, slope))


def _exponent(share: Expression, x: Expression, y: Expression, value: Value) -> Expression:
    return Choice(y.at, _compare(x, ">", number(0.0, x)), times(share, times(value(), _call("log", x))), number(0.0, share))


def _copied_sign(share: Expression, x: Expression, y: Expression, _: Value) -> Expression:
    bits = [Cast(one.at, "int", Call(one.at, "bool", "signbit", (one,))) for one in (x, y)]
    return Choice(x.at, Binary(x.at, "bool", "==", bits[0], bits[1]), share, negative(share))


Value = Callable[[], Expression]
_OF_ONE: Final[dict[str, Callable[[Expression, Expression, Value], Expression]]] = {
    "sqrt": lambda d, _, r: over(times(number(0.5, d), d), r()),
    "exp": lambda d, _, r: times(d, r()),
    "exp2": lambda d, _, r: times(d, times(number(math.log(2), d), r())),
    "expm1": lambda d, _, r: times(d, plus(r(), number(1.0, d))),
    "log": lambda d, x, _: over(d, x),
    "log2": lambda d, x, _: over(d, times(number(math.log(2), d), x)),
    "log10": lambda d, x, _: over(d, times(number(math.log(10), d), x)),
    "log1p": lambda d, x, _: over(d, plus(number(1.0, d), x)),
    "sin": lambda d, x, _: times(d, _call("cos", x)),
    "cos": lambda d, x, _: negative(times(d, _call("sin", x))),
    "tan": lambda d, _, r: times(d, plus(number(1.0, d), times(r(), r()))),
    "tanh": lambda d, _, r: times(d, minus(number(1.0, d), times(r(), r()))),
    "sinh": lambda d, x, _: times(d, _call("cosh", x)),
    "cosh": lambda d, x, _: times(d, _call("sinh", x)),
    "atan": lambda d, x, _: over(d, plus(number(1.0, d), times(x, x))),
    "erf": lambda d, x, _: times(d, times(number(2 / math.sqrt(math.pi), d), _call("exp", negative(times(x, x))))),
    "fabs": lambda d, x, _: _sign(x, d),
}
_OF_MORE: Final[dict[tuple[str, int], Callable[[Expression, Expression, Expression, Value], Expression]]] = {
    ("pow", 0): _power,
    ("pow", 1): _exponent,
    ("fmod", 0): lambda d, _x, _y, _r: d,
    ("fmod", 1): lambda d, x, y, _: negative(times(d, _call("trunc", over(x, y)))),
    ("copysign", 0): _copied_sign,
    ("copysign", 1): lambda d, _x, _y, _r: number(0.0, d),
    ("atan2", 0): lambda d, x, y, _: over(times(d, y), plus(times(x, x), times(y, y))),
    ("atan2", 1): lambda d, x, y, _: negative(over(times(d, x), plus(times(x, x), times(y, y)))),
    ("hypot", 0): lambda d, x, _, r: over(times(d, x), r()),
    ("hypot", 1): lambda d, _, y, r: over(times(d, y), r()),
    ("fma", 0): lambda d, _, y, _r: times(d, y),
    ("fma", 1): lambda d, x, _, _r: times(d, x),
    ("fma", 2): lambda d, _x, _y, _r: d,
}
