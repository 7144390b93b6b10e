"""Bounds proved as a run starts: the least and the greatest that each index can be, from the sizes that are known by then.

One walk through the kernel, in which each variable has an interval (abstract interpretation: Cousot and Cousot, 1977); conditions narrow
them, ways that meet widen them. What comes out is a list of tests. If they hold, no access of the run needs a check, and loops that count
come to an end; if they do not, the run goes by code that checks everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.kernels.analyse.counted import Counted, counted
from laminar.kernels.compile.assembly import Code, Word, number
from laminar.kernels.compile.differs import Differs
from laminar.kernels.compile.intervals import Interval
from laminar.kernels.compile.intervals import known as interval_of
from laminar.kernels.compile.known import Known
from laminar.kernels.compile.sizes import size_word
from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Binary,
    Block,
    Break,
    Choice,
    Continue,
    Declare,
    Expression,
    If,
    Leave,
    Load,
    Loop,
    Scope,
    Statement,
    Store,
    Variable,
    expressions,
    parts,
    statements,
)
from laminar.kernels.language.tree import Object as Array


@dataclass
class Ranges:
    """`unchecked`: accesses by id that are within bounds if all of `tests` hold; `free`: those that are, whatever conditions say. `ends`:
    loops by id that come to an end."""

    known: Known
    tests: set[Word] = field(default_factory=set)
    unchecked: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)
    ends: set[int] = field(default_factory=set)
    _sizes: dict[Array, list[Word]] = field(default_factory=dict)

    @staticmethod
    def of(code: Code, differs: Differs, given: dict[Variable, Word], begin: Word, end: Word) -> Ranges:
        made = Ranges(Known.of(code, differs, given, begin, end))
        made._block(differs.space.kernel.body)
        return made

    def all_hold(self) -> Word:
        made = number("i1", 1)
        for one in sorted(self.tests, key=lambda one: int(one.name[2:])):
            made = self.known.code.binary("and", made, one)
        return made

    # statements; each says whether it goes on behind

    def _block(self, block: Block) -> bool:
        return all(self._statement(one, block[:place]) for place, one in enumerate(block))

    def _statement(self, one: Statement, preceding: Block) -> bool:
        for whole in expressions(one) if not isinstance(one, Loop) else ():
            self._look(whole)
        match one:
            case Declare() if isinstance(one.what, Variable):
                self.known.set(one.what, interval_of(0))
            case Assign():
                self.known.set(one.variable, self.known.interval(one.value) if one.variable.type in ("int", "long") else None)
            case Store() | Atomic():
                self._access(one)
            case If():
                return self._if(one)
            case Loop():
                self._loop(one, preceding)
            case Scope():
                now, told = dict(self.known.now), dict(self.known.told)
                self._block(one.body)
                self.known.again(now, told, one)
            case Break() | Continue() | Leave():
                return False
        return True

    def _if(self, one: If) -> bool:
        now, told = dict(self.known.now), dict(self.known.told)
        self.known.learn(one.condition, True, id(one), alone=not one.other)
        first = self._block(one.then)
        then_now = self.known.now
        self.known.now, self.known.told = dict(now), dict(told)
        self.known.learn(one.condition, False, id(one))
        second = self._block(one.other)
        if first:
            changed = {inner.variable for inner in statements((one,)) if isinstance(inner, Assign)}
            self.known.now = self.known.met(then_now, self.known.now, id(one)) if second else then_now
            self.known.told = {key: value for key, value in told.items() if not value.variables & changed}
        return first or second

    def _loop(self, one: Loop, preceding: Block) -> None:
        found = counted(one, preceding)
        start = self.known.now.get(found.counter) if found is not None else None
        self.known.forget((one,))
        within = self._counter(one, found, start) if found is not None and start is not None else None
        now, told = dict(self.known.now), dict(self.known.told)
        self._block(one.before)
        self._look(one.condition)
        if not one.test_last:
            self.known.learn(one.condition, True, id(one), alone=not self.known.differs.loops.get(id(one), 0))
        if found is not None:
            self.known.now[found.counter] = within
        self._block(one.body)
        self.known.again(now, told, one)  # a round may have been cut short, and the last one's condition did not hold
        self._block(one.update)
        self.known.again(now, told, one)

    def _counter(self, loop: Loop, found: Counted, start: Interval) -> Interval | None:
        """What the counter is in the body."""
        bound = self.known.interval(found.bound)
        if bound is None:
            return None
        sums, step = self.known.sums, (1 if found.step > 0 else -1) if found.operator in ("<", ">") else 0
        last = sums.shifted(bound, -step) if step else bound
        if found.step > 0:
            ends = sums.test("sle", bound.high, found.last_bound)
            made = Interval(start.low, last.high)
        else:
            ends = sums.test("sge", bound.low, found.last_bound)
            made = Interval(last.low, start.high)
        self.ends.add(id(loop))
        self.tests |= {ends, *last.needs}
        guards = start.guards | bound.guards | ({id(loop)} if self.known.differs.loops.get(id(loop), 0) else frozenset())
        return Interval(made.low, made.high, start.needs, guards)

    # expressions

    def _look(self, one: Expression) -> None:
        """At all accesses within; conditions within it tell something of the rest."""
        if isinstance(one, Choice) or (isinstance(one, Binary) and one.operator in ("and", "or")):
            first = one.condition if isinstance(one, Choice) else one.left
            self._look(first)
            sides = [(one.yes, True), (one.no, False)] if isinstance(one, Choice) else [(one.right, one.operator == "and")]
            for side, holds in sides:
                told, now = dict(self.known.told), dict(self.known.now)
                self.known.learn(first, holds, id(one), within=True)
                self._look(side)
                self.known.told, self.known.now = told, now
            return
        for part in parts(one):
            self._look(part)
        if isinstance(one, Load):
            self._access(one)

    def _access(self, node: Load | Store | Atomic) -> None:
        sums = self.known.sums
        if node.object not in self._sizes:
            self._sizes[node.object] = [size_word(self.known.code, size, self.known.given) for size in node.object.shape]
        tests: set[Word] = set()
        guards: set[int] = set()
        for index, size in zip(node.index, self._sizes[node.object], strict=True):
            found = self.known.interval(index)
            if found is None:
                return
            tests |= {*found.needs, sums.test("sge", found.low, 0), sums.test("slt", found.high, size)}
            guards |= found.guards
        self.tests |= tests
        self.unchecked.add(id(node))
        if not guards and isinstance(node, Load):
            self.free.add(id(node))
