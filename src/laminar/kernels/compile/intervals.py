"""Least and greatest values, computed as the kernel starts: words of 64 bits, and what has to hold for them to be true."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laminar.kernels.compile.assembly import Code, Word, number
from laminar.kernels.language.tree import Type


@dataclass(frozen=True)
class Interval:
    """`needs`: what has to hold, so that nothing wraps around. `guards`: ids of conditions that are not the same for all; it is only true
    for instances for which these hold, not for all that come to the place together."""

    low: Word
    high: Word
    needs: frozenset[Word] = frozenset()
    guards: frozenset[int] = frozenset()


def exact(word: Word) -> Interval:
    return Interval(word, word)


def known(value: int) -> Interval:
    return exact(number("i64", value))


@dataclass(frozen=True)
class Intervals:
    code: Code

    def need(self, one: Interval, *tests: Word) -> Interval:
        return replace(one, needs=one.needs.union(tests))

    def test(self, how: str, left: Word, right: Word | int) -> Word:
        return self.code.compare(how, left, number("i64", right) if isinstance(right, int) else right)

    def of_type(self, one: Interval, type_: Type) -> Interval:
        """An int that would wrap around is none that is known."""
        if type_ != "int":
            return one
        return self.need(one, self.test("sge", one.low, -(2**31)), self.test("sle", one.high, 2**31 - 1))

    def add(self, left: Interval, right: Interval) -> Interval:
        return self._pair("sadd", [(left.low, right.low)], [(left.high, right.high)], left, right)

    def subtract(self, left: Interval, right: Interval) -> Interval:
        return self._pair("ssub", [(left.low, right.high)], [(left.high, right.low)], left, right)

    def multiply(self, left: Interval, right: Interval) -> Interval:
        firsts, seconds = dict.fromkeys((left.low, left.high)), dict.fromkeys((right.low, right.high))
        pairs = [(one, other) for one in firsts for other in seconds]
        return self._pair("smul", pairs, pairs, left, right)

    def divide(self, left: Interval, right: Interval, *, rest: bool) -> Interval:
        """Of what is not negative by what is positive."""
        one, zero = number("i64", 1), number("i64", 0)
        least, most = self.most("smax", [right.low, one]), self.most("smax", [right.high, one])
        if rest:
            low, high = zero, self.most("smin", [left.high, self.code.binary("sub", most, one)])
        else:
            low, high = self.code.binary("sdiv", left.low, most), self.code.binary("sdiv", left.high, least)
        return self.need(self._made(low, high, left, right), self.test("sge", left.low, zero), self.test("sge", right.low, one))

    def hull(self, left: Interval, right: Interval) -> Interval:
        return self._made(self.most("smin", [left.low, right.low]), self.most("smax", [left.high, right.high]), left, right)

    def shifted(self, one: Interval, step: int) -> Interval:
        return self.add(one, known(step))

    def most(self, which: str, words: list[Word]) -> Word:
        made = words[0]
        for one in words[1:]:
            made = self.code.intrinsic(which, made, one) if made != one else made
        return made

    def _pair(self, operator: str, lows: list[tuple[Word, Word]], highs: list[tuple[Word, Word]], *of: Interval) -> Interval:
        done = {pair: self._sure(operator, *pair) for pair in dict.fromkeys([*lows, *highs])}
        made = self._made(self.most("smin", [done[one][0] for one in lows]), self.most("smax", [done[one][0] for one in highs]), *of)
        return self.need(made, *(sure for _, sure in done.values()))

    def _made(self, low: Word, high: Word, *of: Interval) -> Interval:
        needs, guards = frozenset[Word](), frozenset[int]()
        for one in of:
            needs, guards = needs | one.needs, guards | one.guards
        return Interval(low, high, needs, guards)

    def _sure(self, operator: str, left: Word, right: Word) -> tuple[Word, Word]:
        """The result, and whether it did not wrap around."""
        pair = self.code.call(f"llvm.{operator}.with.overflow.i64", "{ i64, i1 }", [left, right])
        over = self.code.op(f"extractvalue {pair}, 1", "i1")
        return self.code.op(f"extractvalue {pair}, 0", "i64"), self.code.binary("xor", over, number("i1", 1))
