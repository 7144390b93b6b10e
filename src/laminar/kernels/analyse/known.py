"""What is known of whole numbers at a place of a kernel, as intervals: of variables, and of expressions that conditions told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.analyse.intervals import Guard, Interval, Intervals
from laminar.kernels.analyse.space import ALL, Cut, Digit, Space, between
from laminar.kernels.analyse.terms import Term, Terms, Test
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Binary,
    Block,
    Cast,
    Choice,
    Constant,
    Expression,
    Read,
    Statement,
    Unary,
    Variable,
    statements,
    walk,
)

_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_MOST: Final = 2**31 - 1  # instances in a space with digits


@dataclass(frozen=True)
class Told:
    """What a condition says of an expression: not below, not above."""

    low: Interval | None
    high: Interval | None
    variables: frozenset[Variable]


@dataclass
class Known:
    """`now`: of variables; `told`: of expressions, by what they are made of. `fits`: tests that hold where the space has digits."""

    space: Space
    terms: Terms = field(default_factory=Terms)
    now: dict[Variable, Interval | None] = field(default_factory=dict)
    told: dict[object, Told] = field(default_factory=dict)
    fits: frozenset[Test] = frozenset()

    @staticmethod
    def of(space: Space) -> Known:
        """As an instance starts."""
        made, kernel = Known(space), space.kernel
        made.fits = frozenset(made._fits())
        for one in kernel.parameters[1:]:
            if isinstance(one.of, Variable) and one.of.type in ("int", "long"):
                made.now[one.of] = made.sums.exact(made.terms.value(one.of))
        made.now[kernel.instance] = made._digit(ALL)
        return made

    @property
    def sums(self) -> Intervals:
        return Intervals(self.terms)

    def product(self, cut: Cut) -> Term:
        made = self.terms.number(1)
        for factor in cut:
            made = self.terms.of("*", made, self.terms.size(self.space.resolved_deep(self.space.sizes[factor])))
        return made

    def _fits(self) -> Iterator[Test]:
        """All sizes of the space are at least 1, and their product is one that does not wrap around."""
        cut = self.space.cuts[-1] if self.space.cuts else ()
        for number, factor in enumerate(cut):
            yield from (self.sums.at_least(self.product((factor,)), 1), self.sums.at_most(self.product((factor,)), _MOST))
            yield self.sums.at_most(self.product(cut[: number + 1]), _MOST)

    def set(self, variable: Variable, interval: Interval | None) -> None:
        self.now[variable] = interval
        self.told = {key: one for key, one in self.told.items() if variable not in one.variables}

    def forget(self, block: Block) -> None:
        for one in statements(block):
            if isinstance(one, Assign):
                self.set(one.variable, None)

    def again(self, now: dict[Variable, Interval | None], told: dict[object, Told], within: Statement) -> None:
        """Of what was known before a statement, what still holds after it, or somewhere within: nothing of what it assigns to."""
        self.now = dict(now)
        self.forget((within,))
        self.told = {key: one for key, one in told.items() if all(self.now.get(part) is not None for part in one.variables)}

    def interval(self, one: Expression) -> Interval | None:
        made = self._computed(one)
        told = self.told.get(self._key(one)) if not isinstance(one, Constant) else None
        return self._narrowed(made, told) if made is not None and told is not None else made

    def _narrowed(self, made: Interval, told: Told) -> Interval:
        low, high, needs, guards = made.low, made.high, made.needs, made.guards
        for one in (told.low, told.high):
            if one is not None:
                needs, guards = needs | one.needs, guards | one.guards
        if told.low is not None:
            low = self.terms.of("most", low, told.low.low)
        if told.high is not None:
            high = self.terms.of("least", high, told.high.high)
        return Interval(low, high, needs, guards)

    def _computed(self, one: Expression) -> Interval | None:
        sums = self.sums
        if isinstance(one, Read) and self.now.get(one.variable) is not None:
            return self.now[one.variable]
        digit = self.space.digit(one)
        if digit is not None and (digit == ALL or self.space.cuts):
            return self._digit(digit)
        match one:
            case Constant() if one.type in WHOLE:
                return sums.known(int(one.value))
            case Cast() if one.type in ("int", "long") and one.value.type in ("int", "long"):
                inner = self.interval(one.value)
                return sums.of_type(inner, one.type) if inner is not None else None
            case Unary(operator="-") if one.type in WHOLE:
                inner = self.interval(one.value)
                return sums.of_type(sums.subtract(sums.known(0), inner), one.type) if inner is not None else None
            case Choice() if one.type in ("int", "long"):
                return self._either(one)
            case Binary(operator="&") if (bits := folded(one.right)) is not None and int(bits.value) >= 0:
                return sums.between(0, int(bits.value))
            case Binary() if one.type in ("int", "long") and one.operator in ("+", "-", "*", "/", "%"):
                left, right = self.interval(one.left), self.interval(one.right)
                if left is None or right is None:
                    return None
                if one.operator in ("/", "%"):
                    return sums.divide(left, right, rest=one.operator == "%")
                operate = {"+": sums.add, "-": sums.subtract, "*": sums.multiply}[one.operator]
                return sums.of_type(operate(left, right), one.type)
        return None

    def _either(self, one: Choice) -> Interval | None:
        sides: list[Interval | None] = []
        for side, holds in ((one.yes, True), (one.no, False)):
            told, now = dict(self.told), dict(self.now)
            self.learn(one.condition, holds, id(one), within=True)
            sides.append(self.interval(side))
            self.told, self.now = told, now
        first, second = sides
        if first is None or second is None:
            return None
        return self.sums.hull(first, second).without(id(one))

    def _digit(self, digit: Digit) -> Interval:
        of, one = self.terms.of, self.terms.number(1)
        low = of("most", self.product(digit.low), one)
        last = of("quotient", of("-", self.terms.end, one), low)
        needs = self.fits if digit != ALL else frozenset[Test]()
        if digit.high is None:
            return Interval(of("quotient", self.terms.begin, low), last, needs)
        size = self.product(between(digit.low, digit.high))
        return Interval(self.terms.number(0), of("least", last, of("-", size, one)), needs)

    def learn(self, one: Expression, holds: bool, statement: int, *, alone: bool = False, within: bool = False, loop: bool = False) -> None:
        """What the condition tells where it holds, or does not. `alone`: each of its parts is a jump if it is the same for all. `within`:
        it is part of an expression, and nothing jumps."""
        for part, true in _parts(one, holds):
            guard = Guard("within" if within else "part", statement, one, part, alone, loop)
            for side, operator, bound in _sides(part, true):
                found = self.interval(bound)
                if found is None or isinstance(side, Constant):
                    continue
                if operator in ("<", ">"):
                    found = self.sums.shifted(found, -1 if operator == "<" else 1)
                found = found.guarded(guard)
                low, high = operator in (">", ">=", "=="), operator in ("<", "<=", "==")
                self._note(side, Told(found if low else None, found if high else None, _variables(side)))

    def _note(self, side: Expression, told: Told) -> None:
        if isinstance(side, Read):
            before = self.now.get(side.variable)
            if before is not None:
                self.now[side.variable] = self._narrowed(before, told)
                return
        key = self._key(side)
        old = self.told.get(key)
        if old is not None:
            low = self._narrowed(told.low, Told(old.low, None, told.variables)) if told.low is not None else old.low
            high = self._narrowed(told.high, Told(None, old.high, told.variables)) if told.high is not None else old.high
            told = Told(low, high, told.variables)
        self.told[key] = told

    def _key(self, one: Expression) -> object:
        match one:
            case Constant():
                return ("constant", one.value)
            case Read():
                return id(one.variable)
            case Cast() if one.type == "long" and one.value.type == "int":
                return self._key(one.value)
            case Binary():
                return (one.operator, one.type, self._key(one.left), self._key(one.right))
        return ("node", id(one))

    def met(
        self, first: dict[Variable, Interval | None], second: dict[Variable, Interval | None], statement: int
    ) -> dict[Variable, Interval | None]:
        """Each instance has what its way gave it: the condition itself guards nothing any more."""
        made: dict[Variable, Interval | None] = {}
        for variable in dict.fromkeys([*first, *second]):
            one, other = first.get(variable), second.get(variable)
            found = one if one == other else self.sums.hull(one, other) if one is not None and other is not None else None
            made[variable] = found.without(statement) if found is not None else None
        return made


def _variables(one: Expression) -> frozenset[Variable]:
    return frozenset(part.variable for part in walk(one) if isinstance(part, Read))


def _parts(one: Expression, holds: bool) -> Iterator[tuple[Expression, bool]]:
    """What surely holds, or surely does not."""
    if isinstance(one, Binary) and one.operator == ("and" if holds else "or"):
        yield from _parts(one.left, holds)
        yield from _parts(one.right, holds)
    elif isinstance(one, Unary) and one.operator == "!":
        yield from _parts(one.value, not holds)
    else:
        yield one, holds


def _sides(one: Expression, true: bool) -> Iterator[tuple[Expression, str, Expression]]:
    if isinstance(one, Binary) and one.operator in _OPPOSITE and one.left.type in ("int", "long"):
        operator = one.operator if true else _OPPOSITE[one.operator]
        if operator != "!=":
            yield one.left, operator, one.right
            yield one.right, _TURNED[operator], one.left
