"""Ranges: one walk through a kernel finds an interval for each variable, and so the least and greatest value of each index.

This is abstract interpretation (Cousot and Cousot, 1977): conditions narrow intervals, and merging paths widen them. The results are facts:
accesses that are within their arrays, and loops that end, in runs that pass some tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.kernels.analyse.counted import Counted, counted
from laminar.kernels.analyse.intervals import Guard, Interval
from laminar.kernels.analyse.known import Known
from laminar.kernels.analyse.space import Space
from laminar.kernels.analyse.terms import Term, Test
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


@dataclass(frozen=True)
class Within:
    """Where the access is done its indices are these, in runs in which all of `tests` hold; then they are within the array. It may be done
    early, for those that do not come there, if none of `guards` tells instances apart that come together."""

    access: Load | Store | Atomic
    index: tuple[Interval, ...]
    tests: frozenset[Test]
    guards: frozenset[Guard]


@dataclass(frozen=True)
class Ends:
    """The loop ends in runs that pass all of `tests`, because its `counter` does not wrap around."""

    loop: Loop
    counter: Interval
    tests: frozenset[Test]


@dataclass
class Ranges:
    """`within` of accesses, `ends` of loops, by id; None: not proved, at least at one of the places where the node stands. `fits`: tests
    without which the space of instances has no digits."""

    known: Known
    within: dict[int, Within | None] = field(default_factory=dict)
    ends: dict[int, Ends | None] = field(default_factory=dict)
    _sizes: dict[Array, list[Term]] = field(default_factory=dict)

    @staticmethod
    def of(space: Space) -> Ranges:
        made = Ranges(Known.of(space))
        made._block(space.kernel.body)
        return made

    @property
    def fits(self) -> frozenset[Test]:
        return self.known.fits

    # statements; each says whether it goes on behind

    def _block(self, block: Block) -> bool:
        return all(self._statement(one, block[:place]) for place, one in enumerate(block))

    def _statement(self, one: Statement, preceding: Block) -> bool:
        for whole in expressions(one) if not isinstance(one, Loop) else ():
            self._look(whole)
        match one:
            case Declare() if isinstance(one.what, Variable):
                self.known.set(one.what, self.known.sums.known(0))
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
        ends = self._ends(one, found, start) if found is not None and start is not None else None
        before = self.ends.get(id(one), ends)
        self.ends[id(one)] = self._either_end(before, ends) if before is not None and ends is not None else None
        now, told = dict(self.known.now), dict(self.known.told)
        self._block(one.before)
        self._look(one.condition)
        if not one.test_last:
            self.known.learn(one.condition, True, id(one), alone=True, loop=True)
        if found is not None:
            self.known.now[found.counter] = ends.counter if ends is not None else None
        self._block(one.body)
        self.known.again(now, told, one)  # a round may have been cut short, and the last one's condition did not hold
        self._block(one.update)
        self.known.again(now, told, one)

    def _ends(self, loop: Loop, found: Counted, start: Interval) -> Ends | None:
        bound = self.known.interval(found.bound)
        if bound is None:
            return None
        sums, step = self.known.sums, (1 if found.step > 0 else -1) if found.operator in ("<", ">") else 0
        last = sums.shifted(bound, -step) if step else bound
        if found.step > 0:
            ends, low, high = sums.at_most(bound.high, found.last_bound), start.low, last.high
        else:
            ends, low, high = sums.at_least(bound.low, found.last_bound), last.low, start.high
        tests = last.needs | start.needs | {ends}
        if any(test.known is False for test in tests):
            return None
        made = Interval(low, high, tests, start.guards | bound.guards).guarded(Guard("rounds", id(loop), loop=True))
        return Ends(loop, made, frozenset(test for test in tests if not test.known))

    def _either_end(self, one: Ends, other: Ends) -> Ends:
        """Combine the facts of a loop that occurs in two places."""
        return one if one is other else Ends(one.loop, self.known.sums.hull(one.counter, other.counter), one.tests | other.tests)

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
        within = self._within(node)
        before = self.within.get(id(node), within)
        self.within[id(node)] = self._either(before, within) if before is not None and within is not None else None

    def _within(self, node: Load | Store | Atomic) -> Within | None:
        sums = self.known.sums
        if node.object not in self._sizes:
            self._sizes[node.object] = [self.known.terms.size(size) for size in node.object.shape]
        index = [found for part in node.index if (found := self.known.interval(part)) is not None]
        if len(index) < len(node.index):
            return None
        tests: set[Test] = set()
        for found, size in zip(index, self._sizes[node.object], strict=True):
            tests |= {*found.needs, sums.at_least(found.low, 0), sums.below(found.high, size)}
        if any(test.known is False for test in tests):
            return None
        guards = frozenset[Guard]().union(*(found.guards for found in index))
        return Within(node, tuple(index), frozenset(test for test in tests if not test.known), guards)

    def _either(self, one: Within, other: Within) -> Within:
        """Combine the facts of an access that occurs in two places."""
        if one is other:
            return one
        index = tuple(self.known.sums.hull(first, second) for first, second in zip(one.index, other.index, strict=True))
        return Within(one.access, index, one.tests | other.tests, one.guards | other.guards)
