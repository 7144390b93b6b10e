"""Terms: numbers that are known when a run starts, and tests on them, as data. Bounds of indices consist of them.

A term is an argument of the kernel, the first or last instance of the run, or a 64-bit computation on other terms. Equal terms are one
object, so they can be compared by identity. compile/started.py turns them into machine code; `Run` computes them in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from laminar.kernels.language.tree import Binary, Cast, Constant, Expression, Read, Unary, Variable

Operator: TypeAlias = Literal["number", "value", "begin", "end", "+", "-", "*", "quotient", "rest", "least", "most"]
"""`begin` is the first instance of the run, `end` the one behind the last. `quotient`, `rest`: as the language has them, 0 by 0."""

LOW: Final = -(2**63)
HIGH: Final = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Term:
    """`number`: in order of making, after those of its parts."""

    operator: Operator
    parts: tuple[Term, ...]
    of: int | Variable | None
    number: int

    @property
    def known(self) -> int | None:
        return self.of if isinstance(self.of, int) else None

    def __str__(self) -> str:
        if isinstance(self.of, Variable):
            return self.of.name
        if self.operator in ("number", "begin", "end"):
            return str(self.of) if self.operator == "number" else self.operator
        left, right = self.parts
        if self.operator in ("least", "most"):
            return f"{'min' if self.operator == 'least' else 'max'}({left}, {right})"
        sign = {"quotient": "/", "rest": "%"}.get(self.operator, self.operator)
        return " ".join((_within(left), sign, _within(right)))


def _within(part: Term) -> str:
    return f"({part})" if len(part.parts) == 2 and part.operator not in ("least", "most") else str(part)


@dataclass(frozen=True)
class Test:
    """`left how right`; or the sum, difference or product `left` is one of 64 bits, so that it does not wrap around."""

    how: Literal["<", "<=", "whole"]
    left: Term
    right: Term | None = None

    @property
    def known(self) -> bool | None:
        """Whether the test holds, if the answer is the same in all runs."""
        if self.right is None:
            return None  # what is computed of two numbers is a number
        if self.left is self.right:
            return self.how == "<="
        left, right = self.left.known, self.right.known
        if left is not None and right is not None:
            return left < right or (left == right and self.how == "<=")
        if (left == LOW or right == HIGH) and self.how == "<=":
            return True
        return None

    def __str__(self) -> str:
        return f"{self.left} {self.how} {self.right}" if self.right is not None else f"{self.left} does not wrap around"


@dataclass
class Terms:
    """All terms of one kernel."""

    _made: dict[tuple[object, ...], Term] = field(default_factory=dict)

    def number(self, value: int) -> Term:
        return self._term("number", of=value)

    def value(self, variable: Variable) -> Term:
        """Of a parameter, as the kernel is called."""
        return self._term("value", of=variable)

    @property
    def begin(self) -> Term:
        return self._term("begin")

    @property
    def end(self) -> Term:
        return self._term("end")

    def of(self, operator: Operator, left: Term, right: Term) -> Term:
        first, second = left.known, right.known
        if first is not None and second is not None:
            return self.number(_wrapped(_computed(operator, first, second)))
        if operator in ("least", "most") and left is right:
            return left
        if (second == 0 and operator in ("+", "-")) or (second == 1 and operator in ("*", "quotient")):
            return left
        if (first == 0 and operator == "+") or (first == 1 and operator == "*"):
            return right
        return self._term(operator, left, right)

    def size(self, one: Expression) -> Term:
        """The size of an array, computed with 64 bits whatever the types of its parts."""
        match one:
            case Constant():
                return self.number(int(one.value))
            case Read():
                return self.value(one.variable)
            case Cast():
                return self.size(one.value)
            case Unary(operator="-"):
                return self.of("-", self.number(0), self.size(one.value))
            case Binary(operator="+" | "-" | "*" as sign):
                return self.of(sign, self.size(one.left), self.size(one.right))
            case Binary(operator="/" | "%"):
                return self.of("quotient" if one.operator == "/" else "rest", self.size(one.left), self.size(one.right))
        raise AssertionError(f"{type(one).__name__} in a size")  # K13

    def _term(self, operator: Operator, *parts: Term, of: int | Variable | None = None) -> Term:
        key = (operator, *(part.number for part in parts), of)
        if key not in self._made:
            self._made[key] = Term(operator, parts, of, len(self._made))
        return self._made[key]


def _computed(operator: str, left: int, right: int) -> int:
    """Without wrapping around."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "quotient":
            return 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case "rest":
            return 0 if right == 0 else abs(left) % abs(right) * (1 if left >= 0 else -1)
        case "least":
            return min(left, right)
    return max(left, right)


def wraps(operator: str, left: int, right: int) -> bool:
    """Whether the number does not fit 64 bits."""
    return not LOW <= _computed(operator, left, right) <= HIGH


def _wrapped(value: int) -> int:
    return (value - LOW) % 2**64 + LOW


class Run:
    """Computes terms and tests for one run, from its number of instances and the kernel's arguments."""

    def __init__(self, values: Mapping[Variable, int], begin: int, end: int) -> None:
        self._values, self._begin, self._end = values, begin, end
        self._known: dict[Term, int] = {}

    def value(self, term: Term) -> int:
        if term not in self._known:
            self._known[term] = self._computed(term)
        return self._known[term]

    def holds(self, test: Test) -> bool:
        if test.right is None:
            return not wraps(test.left.operator, *(self.value(part) for part in test.left.parts))
        left, right = self.value(test.left), self.value(test.right)
        return left < right or (left == right and test.how == "<=")

    def _computed(self, term: Term) -> int:
        match term.operator:
            case "begin":
                return self._begin
            case "end":
                return self._end
        if isinstance(term.of, Variable):
            return self._values[term.of]
        if isinstance(term.of, int):
            return term.of
        left, right = (self.value(part) for part in term.parts)
        return _wrapped(_computed(term.operator, left, right))
