"""Accesses of different instances that never meet.

The tests are those of Goff, Kennedy, Tseng, "Practical Dependence Testing" (PLDI 1991): no symbol left (ZIV), one that both have with one
factor (strong SIV), a common divisor (GCD); then ranges (prove.py), once for each order of the two instances. Indices of several
dimensions are also tested as one number, and as what they are the quotient and the rest of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import gcd
from typing import TypeAlias

from laminar.kernels.analyse.barriers import Intervals
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.prove import Known
from laminar.kernels.analyse.values import Site
from laminar.kernels.language.tree import Atomic, Load, Store

Access: TypeAlias = Load | Store | Atomic


@dataclass
class Races:
    """Of the accesses of a kernel."""

    facts: Facts
    intervals: Intervals
    _twos: dict[frozenset[int], _Two] = field(default_factory=dict)

    def apart(self, one: Access, other: Access) -> str | None:
        """Why two instances never use the same element there; None: not proved."""
        why = ""
        for first, second in product(self.facts.accesses(one), self.facts.accesses(other)):
            ways = self.intervals.together(first, second)
            why = why or ("" if ways else "a barrier is between them")
            for rounds in ways:
                two = self._twos.setdefault(rounds, _Two(self.facts, rounds))
                found = two.apart(first, second)
                if found is None:
                    return None
                why = found
        return why or "it is never reached"


@dataclass
class _Two:
    """Two instances: symbols of the second one have a name of their own, unless they are the same for both. `rounds`: ids of loops in
    whose same round both are."""

    facts: Facts
    rounds: frozenset[int]
    _other: dict[Symbol, Symbol] = field(default_factory=dict)

    def apart(self, one: Site, other: Site) -> str | None:
        facts = self.facts
        shape = facts.shapes[one.node.object]
        reached = tuple(size - 1 for size in shape)  # what is out of bounds is not done
        first_index, other_index = self._done(one), self._done(other)
        index = tuple(self.second(form) for form in other_index)
        known = (*one.known, *(self.second(form) for form in other.known), *reached)
        pairs = list(zip(first_index, index, strict=True))
        pairs += self._joined(first_index, other_index, known)
        pairs.append((self._flat(first_index, shape), self._flat(index, shape)))
        first, second = Form.of(facts.instance), Form.of(self._second_of(facts.instance))
        differences = list(dict.fromkeys(left - right for left, right in pairs))
        for difference in differences:
            if (why := self._never_zero(difference, first - second, known)) is not None:
                return why
        if any(self._wrapped(left, right, first - second) for left, right in pairs):
            return "each instance has its own"
        orders = ((*known, first - second - 1), (*known, second - first - 1))
        if all(any(self._ranges(one, order) for one in differences) or self._never(order) for order in orders):
            return "their ranges do not meet"
        return None

    def _done(self, site: Site) -> tuple[Form, ...]:
        """The indices of an access that is done: an index that wraps around once would be less than 0."""
        found = []
        for form in site.index:
            symbol = form.single
            if symbol is not None and symbol.kind == "wrapped" and symbol.type == "int" and symbol.of is not None:
                once = self.facts.holds(symbol.of, site.known) and self.facts.holds(2**32 - 1 - symbol.of, site.known)
                form = symbol.of if once else form
            found.append(form)
        return tuple(found)

    def _never_zero(self, difference: Form, instances: Form, known: Known) -> str | None:
        value = difference.known
        if value is not None:
            return "their indices differ" if value else None
        parts = _times(difference, instances)
        if parts is not None and (self.facts.holds(parts - 1, known) or self.facts.holds(-parts - 1, known)):
            return "each instance has its own"
        divisor = gcd(*(factor for term, factor in difference.terms.items() if term))
        if difference.terms.get((), 0) % divisor:
            return f"their indices differ by what is no multiple of {divisor}"
        return None

    def _wrapped(self, left: Form, right: Form, instances: Form) -> bool:
        """Are they apart even where they wrap around? By an odd number where all else is even; or since c * i is another number for each
        i, if c is odd or twice an odd number."""
        difference = _unwrapped(left) - _unwrapped(right)
        power = gcd(2**31, *(factor for term, factor in difference.terms.items() if term))
        if difference.terms.get((), 0) % power:
            return True
        factor = _times(difference, instances)
        return factor is not None and factor.known is not None and factor.known % 4 != 0 and self.facts.instance.type == "int"

    def _ranges(self, difference: Form, known: Known) -> bool:
        return self.facts.holds(difference - 1, known) or self.facts.holds(-difference - 1, known)

    def _never(self, known: Known) -> bool:
        """Do the guards of both exclude it?"""
        return any(self.facts.holds(-form - 1, known) for form in reversed(known) if form.known is None)

    def _flat(self, index: tuple[Form, ...], shape: tuple[Form, ...]) -> Form:
        made = Form({})
        for form, size in zip(index, shape, strict=True):
            made = made * size + form
        return self._equal(made)

    def _equal(self, form: Form) -> Form:
        """Rests and variables replaced by what they are equal to."""
        equal = self.facts.values.prover.equal
        while by := {one: equal[one] for one in form.symbols if one in equal}:
            form = form.replaced(by)
        return form

    def _joined(self, index: tuple[Form, ...], other: tuple[Form, ...], known: Known) -> list[tuple[Form, Form]]:
        """Where a quotient and its rest are both equal, so is what they are of."""
        made: list[tuple[Form, Form]] = []
        same = {one for one, two in zip(index, other, strict=True) if one == two and one.single is not None}
        again = True
        while again:
            again = False
            for form in list(same):
                rest = form.single
                if rest is None or rest.kind != "rest" or rest.of is None or rest.by is None or rest.of in same:
                    continue
                shared = not any(self._is_own(one) for one in rest.by.symbols)
                if shared and self._quotient(rest.of, rest.by, known) in same:
                    same.add(rest.of)
                    made.append((self._equal(rest.of), self._equal(self.second(rest.of))))
                    again = True
        return made

    def _quotient(self, of: Form, by: Form, known: Known) -> Form | None:
        """The symbol of of / by, if there is one and the division is by more than 0 of what is not negative."""
        if not (self.facts.holds(by - 1, known) and self.facts.holds(of, known)):
            return None
        found, inner = self.facts.values.divided(of, by), of.single
        nested = inner is not None and inner.kind == "quotient" and inner.by is not None and self.facts.holds(inner.by - 1, known)
        if found is None and nested and inner is not None and inner.of is not None and inner.by is not None:
            found = self.facts.values.divided(inner.of, inner.by * by)  # (a / b) / c is a / (b * c)
        return None if found is None else Form.of(found)

    # symbols of the second instance

    def _is_own(self, symbol: Symbol) -> bool:
        """Is it another number in another instance?"""
        return symbol.varying or not self.rounds.issuperset(symbol.loops)

    def second(self, form: Form) -> Form:
        return form.replaced({one: Form.of(self._second_of(one)) for one in sorted(form.symbols, key=lambda one: one.number)})

    def _second_of(self, symbol: Symbol) -> Symbol:
        if not self._is_own(symbol):
            return symbol
        if symbol not in self._other:
            prover = self.facts.values.prover
            low, high = ([(self.second(m), self.second(b)) for m, b in side.get(symbol, ())] for side in (prover.low, prover.high))
            same = self.second(prover.equal[symbol]) if symbol in prover.equal else None
            of, by = (self.second(one) if one is not None else None for one in (symbol.of, symbol.by))
            cases = prover.cases.get(symbol)
            renamed = [(self.second(value), tuple(self.second(one) for one in known)) for value, known in cases] if cases else []
            made = self.facts.values.another(symbol, of, by)
            prover.low[made], prover.high[made] = low, high
            if same is not None:
                prover.equal[made] = same
            if renamed:
                prover.cases[made] = (renamed[0], renamed[1])
            self._other[symbol] = made
        return self._other[symbol]


def _unwrapped(form: Form) -> Form:
    """The same number, up to wrapping around."""
    while by := {one: one.of for one in form.symbols if one.kind == "wrapped" and one.of is not None}:
        form = form.replaced(by)
    return form


def _times(form: Form, of: Form) -> Form | None:
    """c with form == c * of, where of = first - second."""
    first = max(of.terms, key=lambda term: of.terms[term])[0]
    parts = form.split(first)
    if parts is None or not parts[0].terms:
        return None
    return parts[0] if form == parts[0] * of else None
