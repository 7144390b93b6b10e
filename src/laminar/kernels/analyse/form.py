"""Whole numbers as sums of products of symbols: `row * cols + k` has the terms row·cols and k, each with a whole coefficient.

Of a value of 32 or 64 bits a form is the value up to wrapping around: sums and products wrap the same way, whatever is in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from laminar.kernels.language.tree import Type, Variable

Kind: TypeAlias = Literal["count", "value", "instance", "counter", "variable", "quotient", "rest", "wrapped", "opaque"]


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number that has one value while a place is looked at. `number`: in order of making, so that a symbol's bounds are made of earlier
    ones. `loops`: ids of the loops in which it was made, so that each round has its own. `of`, `by`: what a quotient or rest is of, or what
    was wrapped around."""

    name: str
    kind: Kind
    type: Type
    number: int
    varying: bool
    loops: tuple[int, ...] = ()
    variable: Variable | None = None
    of: Form | None = None
    by: Form | None = None

    def __repr__(self) -> str:
        return self.name


Term: TypeAlias = tuple[Symbol, ...]


class Form:
    """Immutable. Terms are products of symbols, in order of their numbers; the empty one is the constant."""

    __slots__ = ("_body", "_hash", "terms")

    def __init__(self, terms: Mapping[Term, int]) -> None:
        self.terms = {term: factor for term, factor in terms.items() if factor}
        self._hash: int | None = None
        self._body: frozenset[tuple[Term, int]] | None = None

    @staticmethod
    def constant(value: int) -> Form:
        return Form({(): value})

    @staticmethod
    def of(symbol: Symbol) -> Form:
        return Form({(symbol,): 1})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.body, self.terms.get((), 0)))
        return self._hash

    @property
    def body(self) -> frozenset[tuple[Term, int]]:
        """All but the constant."""
        if self._body is None:
            self._body = frozenset(one for one in self.terms.items() if one[0])
        return self._body

    def __add__(self, other: Form | int) -> Form:
        made = dict(self.terms)
        if isinstance(other, int):
            made[()] = made.get((), 0) + other
            return Form(made)
        for term, factor in other.terms.items():
            made[term] = made.get(term, 0) + factor
        return Form(made)

    def __neg__(self) -> Form:
        return Form({term: -factor for term, factor in self.terms.items()})

    def __sub__(self, other: Form | int) -> Form:
        return self + -other

    def __rsub__(self, other: int) -> Form:
        return -self + other

    def __mul__(self, other: Form | int) -> Form:
        made: dict[Term, int] = {}
        for left, first in self.terms.items():
            for right, second in _form(other).terms.items():
                term = tuple(sorted(left + right, key=_number)) if left and right else left or right
                made[term] = made.get(term, 0) + first * second
        return Form(made)

    @property
    def symbols(self) -> set[Symbol]:
        return {symbol for term in self.terms for symbol in term}

    @property
    def known(self) -> int | None:
        """Its value, if it is a constant."""
        return 0 if not self.terms else self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def single(self) -> Symbol | None:
        """The symbol, if it is one and nothing else."""
        (term, factor), *rest = self.terms.items() if self.terms else [((), 0)]
        return term[0] if not rest and factor == 1 and len(term) == 1 else None

    @property
    def degree(self) -> int:
        return max((len(term) for term in self.terms), default=0)

    def latest(self) -> Symbol:
        """The symbol with the highest number; only of forms that have any."""
        return max((term[-1] for term in self.terms if term), key=_number)

    def split(self, symbol: Symbol) -> tuple[Form, Form] | None:
        """(a, b) with self = a * symbol + b; None if the symbol is there squared."""
        factor: dict[Term, int] = {}
        rest: dict[Term, int] = {}
        for term, number in self.terms.items():
            times = term.count(symbol)
            if times > 1:
                return None
            if times:
                at = term.index(symbol)
                factor[term[:at] + term[at + 1 :]] = number
            else:
                rest[term] = number
        return Form(factor), Form(rest)

    def over(self, divisor: Form) -> tuple[Form, Form] | None:
        """(a, b) with self = a * divisor + b and as much as goes in a; None unless the divisor is one term."""
        if len(divisor.terms) != 1:
            return None
        ((by, size),) = divisor.terms.items()
        whole: dict[Term, int] = {}
        rest: dict[Term, int] = {}
        for term, factor in self.terms.items():
            left = list(term)
            for symbol in by:
                if symbol in left:
                    left.remove(symbol)
            if len(term) - len(left) == len(by) and factor % size == 0:
                whole[tuple(left)] = factor // size
            else:
                rest[term] = factor
        return Form(whole), Form(rest)

    def replaced(self, by: Mapping[Symbol, Form]) -> Form:
        if not self.symbols & by.keys():
            return self
        made = Form({})
        for term, factor in self.terms.items():
            product = Form.constant(factor)
            for symbol in term:
                product = product * (by.get(symbol) or Form.of(symbol))
            made = made + product
        return made

    def value(self, of: Mapping[Symbol, int]) -> int:
        total = 0
        for term, factor in self.terms.items():
            for symbol in term:
                factor *= of[symbol]
            total += factor
        return total

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for term, factor in sorted(self.terms.items(), key=lambda one: (-len(one[0]), [symbol.number for symbol in one[0]])):
            names = " * ".join(symbol.name for symbol in term)
            size = abs(factor)
            words = names if names and size == 1 else f"{size} * {names}" if names else str(size)
            text += (" - " if factor < 0 else " + ") + words if text else ("-" if factor < 0 else "") + words
        return text


def _number(symbol: Symbol) -> int:
    return symbol.number


def _form(value: Form | int) -> Form:
    return value if isinstance(value, Form) else Form.constant(value)


def product(forms: Iterable[Form]) -> Form:
    made = Form.constant(1)
    for one in forms:
        made = made * one
    return made
