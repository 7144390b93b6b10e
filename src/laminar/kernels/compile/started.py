"""Machine code for the start of a run: it evaluates the tests of facts, which decide which checks the code may omit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from laminar.kernels.analyse.intervals import Guard
from laminar.kernels.analyse.proofs import Fact, Proofs, accesses
from laminar.kernels.analyse.terms import Operator, Term, Test
from laminar.kernels.compile import arithmetic
from laminar.kernels.compile.assembly import Code, Word, number
from laminar.kernels.compile.body import Allowed
from laminar.kernels.compile.differs import Differs
from laminar.kernels.language.tree import Load, Loop, Variable, walk

_OVERFLOW: Final = {"+": "sadd", "-": "ssub", "*": "smul"}
_CHOSEN: Final[dict[Operator, str]] = {"least": "smin", "most": "smax"}


@dataclass
class Started:
    """Terms as words of the function that is called."""

    code: Code
    given: Mapping[Variable, Word]
    begin: Word
    end: Word
    _words: dict[Term, Word] = field(default_factory=dict)
    _over: dict[Term, Word] = field(default_factory=dict)

    def all_hold(self, tests: Iterable[Test]) -> Word:
        made = number("i1", 1)
        for test in tests:
            made = self.code.binary("and", made, self.test(test))
        return made

    def test(self, test: Test) -> Word:
        left = self.word(test.left)
        if test.right is None:
            return self.code.binary("xor", self._over[test.left], number("i1", 1))
        return self.code.compare("slt" if test.how == "<" else "sle", left, self.word(test.right))

    def word(self, term: Term) -> Word:
        if term not in self._words:
            self._words[term] = self._word(term)
        return self._words[term]

    def _word(self, term: Term) -> Word:
        if term.known is not None:
            return number("i64", term.known)
        if isinstance(term.of, Variable):
            word = self.given[term.of]
            return word if word.type == "i64" else self.code.convert("sext" if word.type == "i32" else "zext", word, "i64")
        if not term.parts:
            return self.begin if term.operator == "begin" else self.end
        left, right = (self.word(part) for part in term.parts)
        if term.operator in _CHOSEN:
            return self.code.intrinsic(_CHOSEN[term.operator], left, right)
        if term.operator in ("quotient", "rest"):
            return arithmetic.divided(self.code, "/" if term.operator == "quotient" else "%", left, right)
        pair = self.code.call(f"llvm.{_OVERFLOW[term.operator]}.with.overflow.i64", "{ i64, i1 }", [left, right])
        self._over[term] = self.code.op(f"extractvalue {pair}, 1", "i1")
        return self.code.op(f"extractvalue {pair}, 0", "i64")


def allowed(proofs: Proofs, endless: frozenset[int], differs: Differs) -> tuple[Allowed, frozenset[Test]]:
    """What code for blocks of instances may leave away in runs that pass the tests. `endless`: loops that may have no end, as far as their
    text tells. What is done early, for instances that may not come there, takes a fact by intervals that no condition guards which tells
    them apart; else one by symbols asks less of the run, where there is one."""
    early = {key for key, fact in proofs.intervals.items() if isinstance(fact.of, Loop) or _early(fact, differs)}
    open_ = ({id(one) for one in accesses(proofs.kernel)} | endless) - early
    symbols = {key: fact for key, fact in proofs.symbols.items() if key in open_} if open_ else {}
    facts = {**proofs.intervals, **symbols}
    free = frozenset(key for key in early if isinstance(facts[key].of, Load))
    kept = {key: fact for key, fact in facts.items() if not isinstance(fact.of, Loop) or key in endless}
    unchecked = frozenset(key for key, fact in kept.items() if not isinstance(fact.of, Loop))
    return Allowed(unchecked, free, endless - kept.keys()), frozenset[Test]().union(*(one.condition for one in kept.values()))


def _early(fact: Fact, differs: Differs) -> bool:
    return fact.guards is not None and not any(_parts_ways(guard, differs) for guard in fact.guards)


def _parts_ways(guard: Guard, differs: Differs) -> bool:
    """May it not hold for some of the instances that come together, or is the place reached nevertheless?"""
    if guard.sort == "within":
        return True
    rounds = guard.loop and bool(differs.loops.get(guard.statement, 0))
    if guard.sort == "rounds":
        return rounds
    assert guard.whole is not None and guard.part is not None
    if guard.alone and not rounds:
        return bool(differs.kind(guard.part).bits) or any(isinstance(inner, Load) for inner in walk(guard.part))
    return bool(differs.kind(guard.whole).bits)
