"""The digits of an instance's number: of `c = i % cols, r = i / cols % rows, b = i / (cols * rows)` they are c, r and b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from laminar.kernels.language.print import show
from laminar.kernels.language.tree import Assign, At, Binary, Cast, Constant, Expression, Kernel, Object, Read, Variable, walk


@dataclass(frozen=True)
class Digit:
    """`variable` is instance / unit % size."""

    variable: Variable
    unit: Expression
    size: Expression


def digits_of(kernel: Kernel, instance: Variable, sets: Sequence[Assign]) -> list[Digit] | None:
    """From the lowest on, if together they are the whole number; none if there are none; None if they are something else.

    The highest has no size of its own: it is told by the number of instances that the kernel's text says."""
    found: list[tuple[Variable, list[Expression], Expression | None]] = []
    for one in sets:
        digit = _digit(one.value, instance)
        if digit is not None:
            found.append((one.variable, *digit))
    if not found:
        return []
    made: list[Digit] = []
    below: list[Expression] = []
    for variable, unit, size in sorted(found, key=lambda digit: len(digit[1])):
        if Counter(map(show, unit)) != Counter(map(show, below)):
            return None
        if size is None:
            size = _left(kernel, below)
            if size is None or len(made) != len(found) - 1:
                return None
            made.append(Digit(variable, product_of(below, variable.at), size))
            return made
        made.append(Digit(variable, product_of(below, variable.at), size))
        below = [*below, *factors_of(size)]
    return None


def _digit(value: Expression, instance: Variable) -> tuple[list[Expression], Expression | None] | None:
    """(factors of the unit, size)."""
    if isinstance(value, Binary) and value.operator == "%":
        inner = _quotient(value.left, instance)
        return None if inner is None else (inner, value.right)
    if isinstance(value, Binary) and value.operator == "/":
        inner = _quotient(value, instance)
        return None if inner is None else (inner, None)
    return None


def _quotient(value: Expression, instance: Variable) -> list[Expression] | None:
    if isinstance(value, Read):
        return [] if value.variable is instance else None
    if isinstance(value, Binary) and value.operator == "/":
        inner = _quotient(value.left, instance)
        return None if inner is None else [*inner, *factors_of(value.right)]
    return None


def _left(kernel: Kernel, below: Sequence[Expression]) -> Expression | None:
    """The number of instances without these factors."""
    said = factors_of(kernel.instances) if kernel.instances is not None else None
    arrays = [one.of for one in kernel.arrays if isinstance(one.of, Object)]
    sizes = [part for one in arrays for size in one.shape for part in walk(size)]
    if said is None and any(isinstance(part, Read) and part.variable is kernel.count for part in sizes):
        return None  # arrays tell it
    if said is None:
        first = next((one.of for one in kernel.arrays if one.mode != "in" and isinstance(one.of, Object)), None)
        said = [part for size in first.shape for part in factors_of(size)] if first else []
    left = list(said)
    for one in below:
        match = next((part for part in left if show(part) == show(one)), None)
        if match is None:
            return None
        left.remove(match)
    return product_of(left, kernel.parameters[0].at)


def factors_of(one: Expression) -> list[Expression]:
    if isinstance(one, Cast):
        return factors_of(one.value)
    if isinstance(one, Binary) and one.operator == "*":
        return [*factors_of(one.left), *factors_of(one.right)]
    return [one]


def product_of(factors: Sequence[Expression], at: At) -> Expression:
    if not factors:
        return Constant(at, "int", 1)
    return reduce(lambda one, other: Binary(one.at, one.type, "*", one, other), factors)
