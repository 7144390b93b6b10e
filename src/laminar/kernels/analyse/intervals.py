"""Intervals: the least and greatest value of a number, as terms that are known when a run starts, with the tests that they depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.analyse.terms import Operator, Term, Terms, Test, wraps
from laminar.kernels.language.tree import Expression, Type


@dataclass(frozen=True, eq=False)
class Guard:
    """A condition that narrows an interval; whether it is the same for all instances that come together is known to who makes the code.
    `sort`: a `part` of what a statement asks, which is a jump of its own if it is `alone`; `within` an expression, where nothing jumps; or
    `rounds` of a loop, which some leave before others."""

    sort: Literal["part", "within", "rounds"]
    statement: int  # its id, or that of the expression
    whole: Expression | None = None
    part: Expression | None = None
    alone: bool = False
    loop: bool = False  # the statement is one


@dataclass(frozen=True)
class Interval:
    """`needs`: what has to hold, so that nothing wraps around. `guards`: it is only true for instances for which these hold, not for all
    that come to the place together."""

    low: Term
    high: Term
    needs: frozenset[Test] = frozenset()
    guards: frozenset[Guard] = frozenset()

    def without(self, statement: int) -> Interval:
        """Whatever the condition of that statement is."""
        kept = frozenset(guard for guard in self.guards if guard.statement != statement)
        return self if kept == self.guards else replace(self, guards=kept)

    def guarded(self, *guards: Guard) -> Interval:
        return replace(self, guards=self.guards.union(guards))


Pairs: TypeAlias = list[tuple[Term, Term]]
_INT: Final = LIMITS["int"]


@dataclass(frozen=True)
class Intervals:
    terms: Terms

    def exact(self, term: Term) -> Interval:
        return Interval(term, term)

    def known(self, value: int) -> Interval:
        return self.exact(self.terms.number(value))

    def between(self, low: int, high: int) -> Interval:
        return Interval(self.terms.number(low), self.terms.number(high))

    def need(self, one: Interval, *tests: Test) -> Interval:
        return replace(one, needs=one.needs.union(test for test in tests if not test.known))

    def at_least(self, left: Term, right: Term | int) -> Test:
        return Test("<=", self._term(right), left)

    def at_most(self, left: Term, right: Term | int) -> Test:
        return Test("<=", left, self._term(right))

    def below(self, left: Term, right: Term | int) -> Test:
        return Test("<", left, self._term(right))

    def of_type(self, one: Interval, type_: Type) -> Interval:
        """The interval of an int that may wrap around is unknown."""
        if type_ != "int":
            return one
        return self.need(one, self.at_least(one.low, _INT[0]), self.at_most(one.high, _INT[1]))

    def add(self, left: Interval, right: Interval) -> Interval:
        return self._pair("+", [(left.low, right.low)], [(left.high, right.high)], left, right)

    def subtract(self, left: Interval, right: Interval) -> Interval:
        return self._pair("-", [(left.low, right.high)], [(left.high, right.low)], left, right)

    def multiply(self, left: Interval, right: Interval) -> Interval:
        firsts, seconds = dict.fromkeys((left.low, left.high)), dict.fromkeys((right.low, right.high))
        pairs = [(one, other) for one in firsts for other in seconds]
        return self._pair("*", pairs, pairs, left, right)

    def divide(self, left: Interval, right: Interval, *, rest: bool) -> Interval:
        """The quotient of a non-negative number and a positive one."""
        one, zero = self.terms.number(1), self.terms.number(0)
        least, most = self.terms.of("most", right.low, one), self.terms.of("most", right.high, one)
        if rest:
            low, high = zero, self.terms.of("least", left.high, self.terms.of("-", most, one))
        else:
            low, high = self.terms.of("quotient", left.low, most), self.terms.of("quotient", left.high, least)
        return self.need(self._made(low, high, left, right), self.at_least(left.low, zero), self.at_least(right.low, one))

    def hull(self, left: Interval, right: Interval) -> Interval:
        return self._made(self.terms.of("least", left.low, right.low), self.terms.of("most", left.high, right.high), left, right)

    def shifted(self, one: Interval, step: int) -> Interval:
        return self.add(one, self.known(step))

    def _term(self, value: Term | int) -> Term:
        return self.terms.number(value) if isinstance(value, int) else value

    def _pair(self, operator: Operator, lows: Pairs, highs: Pairs, *of: Interval) -> Interval:
        sure: dict[Test, None] = {}

        def ends(which: Operator, pairs: Pairs) -> Term:
            made: Term | None = None
            for left, right in pairs:
                one = self.terms.of(operator, left, right)
                if one.parts == (left, right):
                    sure[Test("whole", one)] = None
                elif left.known is not None and right.known is not None and wraps(operator, left.known, right.known):
                    sure[Test("<", one, one)] = None  # which never holds
                made = one if made is None else self.terms.of(which, made, one)
            assert made is not None
            return made

        made = self._made(ends("least", lows), ends("most", highs), *of)
        return self.need(made, *sure)

    def _made(self, low: Term, high: Term, *of: Interval) -> Interval:
        needs, guards = frozenset[Test](), frozenset[Guard]()
        for one in of:
            needs, guards = needs | one.needs, guards | one.guards
        return Interval(low, high, needs, guards)
