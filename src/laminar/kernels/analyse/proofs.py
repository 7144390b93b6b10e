"""The proofs of a kernel, as facts: what is proved, in which runs, and why. One prover serves `laminar kernel check`, native code, which
omits the checks that are proved unnecessary, and the emulator, which can verify each fact in a run.

    proofs = Proofs.of(kernel, Space.of(kernel))
    proofs.symbols[id(access)].condition      tests that a run must pass so that the access is within its array

There are two ways to prove that an index is within its array. Intervals (ranges.py) are known when a run starts, and need tests at
that time. Sums of symbols (prove.py) relate an index to others and to sizes; their proofs hold in all runs that meet granted.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from laminar.kernels.analyse.counted import finite
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.intervals import Guard, Interval
from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.analyse.ranges import Ends, Ranges, Within
from laminar.kernels.analyse.space import Space
from laminar.kernels.analyse.start import Start
from laminar.kernels.analyse.terms import Term, Terms, Test
from laminar.kernels.language.tree import Atomic, Kernel, Load, Loop, Store, expressions, statements, walk

Access: TypeAlias = Load | Store | Atomic


@dataclass(frozen=True)
class Fact:
    """In runs in which all tests of the `condition` hold the access is within its array, or the loop ends. `index`: what its indices,
    or the loop's counter, are then, if that is known. `guards`: conditions that it rests on; None: it is not known which ones."""

    of: Access | Loop
    condition: frozenset[Test]
    reason: str
    index: tuple[Interval, ...] = ()
    guards: frozenset[Guard] | None = None

    @property
    def asked(self) -> list[str]:
        """The conditions on a run, for users; leaves out tests for numbers that are too large for their type."""
        plain = sorted((test for test in ordered(self.condition) if test.right is not None), key=lambda test: test.left.known is None)
        return [str(test) for test in plain if not {test.left.known, (test.right or test.left).known} & _LARGEST]


_LARGEST: Final = {*LIMITS["int"], *LIMITS["long"]}


@dataclass(frozen=True)
class Proofs:
    """Facts of accesses and loops, by id: at most one of each kind, by intervals and by symbols; what is not there is not proved. `fits`:
    tests without which the space of instances has no digits."""

    kernel: Kernel
    intervals: Mapping[int, Fact]
    fits: frozenset[Test]
    _terms: Terms
    _facts: Facts | None = None

    @staticmethod
    def of(kernel: Kernel, space: Space, facts: Facts | None = None) -> Proofs:
        """Prove for any number of instances. `facts`: the kernel's, if they are known already."""
        ranges = Ranges.of(space)
        known = [_of_access(one) for one in ranges.within.values() if one] + [_of_loop(one) for one in ranges.ends.values() if one]
        return Proofs(kernel, {id(one.of): one for one in known}, ranges.fits, ranges.known.terms, facts)

    @cached_property
    def symbols(self) -> Mapping[int, Fact]:
        """Computed on demand, because it takes longer."""
        return symbolic(self._facts or Facts.of(self.kernel), self._terms)

    @property
    def every(self) -> list[Fact]:
        return [*self.intervals.values(), *self.symbols.values()]


def _of_access(one: Within) -> Fact:
    places = [f"from {each.low} to {each.high}" if each.low is not each.high else str(each.low) for each in one.index]
    return Fact(one.access, one.tests, f"the index is {' and '.join(places)}", one.index, one.guards)


def _of_loop(one: Ends) -> Fact:
    return Fact(one.loop, one.tests, f"its counter goes from {one.counter.low} to {one.counter.high}", (one.counter,))


def ordered(tests: frozenset[Test]) -> list[Test]:
    return sorted(tests, key=lambda test: (test.left.number, test.right.number if test.right is not None else -1, test.how))


def accesses(kernel: Kernel) -> list[Access]:
    found: list[Access] = []
    for one in statements(kernel.body):
        found += [part for whole in expressions(one) for part in walk(whole) if isinstance(part, Load)]
        found += [one] if isinstance(one, (Store, Atomic)) else []
    return found


def symbolic(facts: Facts, terms: Terms | None = None) -> dict[int, Fact]:
    """What no instance can break in a run that keeps to what is granted: accesses within their arrays, and loops that end."""
    granted = _granted(facts, terms or Terms())
    if granted is None:
        return {}
    found: dict[int, Fact] = {}
    for key, sites in facts.values.sites.items():
        node = sites[0].node
        if not any(open_ends(facts, node, dimension) for dimension in range(len(node.index))):
            found[key] = Fact(node, granted, "the index is within the array")
    for loop in (one for one in statements(facts.kernel.body) if isinstance(one, Loop)):
        if finite(loop):
            found[id(loop)] = Fact(loop, frozenset(), "its counter reaches the bound")
        elif id(loop) in facts.ending:
            found[id(loop)] = Fact(loop, granted, "its counter reaches the bound")
    return found


def open_ends(facts: Facts, node: Access, dimension: int) -> tuple[bool, bool] | None:
    """(below, beyond): which bounds of a dimension are not proved; None if both are."""
    size = facts.shapes[node.object][dimension]
    sites = facts.accesses(node)
    below = not all(facts.holds(one.index[dimension], one.known) for one in sites)
    beyond = not all(facts.holds(size - one.index[dimension] - 1, one.known) for one in sites)
    return (below, beyond) if below or beyond else None


def _granted(facts: Facts, terms: Terms) -> frozenset[Test] | None:
    """What is taken for granted, as tests; None: of what no run can be asked."""
    tests: list[Test] = []
    for form in Start.of(facts.kernel, said=facts.said).granted:
        term = _term(form, terms, tests)
        if term is None:
            return None
        tests.append(Test("<=", terms.number(0), term))
    return frozenset(test for test in tests if not test.known)


def _term(form: Form, terms: Terms, tests: list[Test]) -> Term | None:
    """The value of a linear form of parameters, with tests that nothing in it wraps around."""
    total = terms.number(0)
    for symbols, factor in form.terms.items():
        product = terms.number(factor)
        for symbol in symbols:
            value = _symbol(symbol, terms, tests)
            if value is None:
                return None
            product = _sure(tests, terms.of("*", product, value))
        total = _sure(tests, terms.of("+", total, product))
    return total


def _symbol(symbol: Symbol, terms: Terms, tests: list[Test]) -> Term | None:
    if symbol.kind in ("count", "value") and symbol.variable is not None:
        return terms.value(symbol.variable)
    if symbol.kind in ("quotient", "rest") and symbol.of is not None and symbol.by is not None:
        left, right = _term(symbol.of, terms, tests), _term(symbol.by, terms, tests)
        if left is not None and right is not None:
            return terms.of("quotient" if symbol.kind == "quotient" else "rest", left, right)
    if symbol.kind == "wrapped" and symbol.of is not None and (value := _term(symbol.of, terms, tests)) is not None:
        low, high = LIMITS[symbol.type]  # in runs in which it does not
        tests += [Test("<=", terms.number(low), value), Test("<=", value, terms.number(high))]
        return value
    return None


def _sure(tests: list[Test], term: Term) -> Term:
    if term.operator in ("+", "-", "*"):
        tests.append(Test("whole", term))
    return term
