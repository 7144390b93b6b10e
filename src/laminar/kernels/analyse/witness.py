"""Two instances that do meet, or one that is out of bounds: found by trying small sizes, with every index computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final

from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.values import Site
from laminar.kernels.arguments import evaluated
from laminar.kernels.language.tree import WHOLE, Read, Variable, walk

SIZES: Final = (2, 3, 4, 5)  # that all sizes and values have, if what the kernel assumes allows it
MOST_TRIED: Final = 2000  # other values that are tried, where it does not
MOST: Final = 2000  # places of one access that are looked at


@dataclass(frozen=True)
class Place:
    """An instance that does an access: where, and in which round of each loop."""

    instance: int
    index: tuple[int, ...]
    rounds: dict[int, int]  # the counter, by the loop's id


@dataclass
class Small:
    """A kernel with sizes of a few elements."""

    facts: Facts
    size: int
    count: int = 0
    given: dict[Symbol, int] = field(default_factory=dict)

    @staticmethod
    def all(facts: Facts) -> list[Small]:
        return [one for size in SIZES if (one := Small(facts, size))._starts()]

    @property
    def numbers(self) -> dict[str, int]:
        """Whole values of the call, by name."""
        whole = [symbol for symbol in self.given if symbol.kind == "value" and symbol.variable and symbol.variable.type in WHOLE]
        return {symbol.name: self.given[symbol] for symbol in whole}

    @property
    def text(self) -> str:
        values = ", ".join(f"{name} = {number}" for name, number in self.numbers.items())
        return f"{self.count} instances" + (f" and {values}" if values else "")

    def _starts(self) -> bool:
        """Do sizes make sense?"""
        facts = self.facts
        self.given = {symbol: self.size for symbol in facts.parameters.values() if symbol.kind in ("count", "value")}
        if not self._assumed():
            return False
        number = facts.number or Form.of(facts.parameters[facts.kernel.count])
        self.count = self.value(number, self.given) or 0
        self.given[facts.parameters[facts.kernel.count]] = self.count
        shapes = [self.value(size, self.given) for shape in facts.shapes.values() for size in shape]
        return self.count > 1 and all(size is not None and size > 0 for size in shapes)

    def _assumed(self) -> bool:
        """Other values for those that something is assumed of, where it does not hold of this size; does it hold of any?"""
        kernel, every = self.facts.kernel, self.facts.parameters
        named = dict.fromkeys(
            part.variable for one in kernel.assumptions for part in walk(one) if isinstance(part, Read) and part.variable.type in WHOLE
        )
        ways = product([self.size, *reversed(range(self.size)), self.size + 1], repeat=len(named))
        for numbers in islice(ways, MOST_TRIED):
            scalars: dict[Variable, bool | int | float] = dict.fromkeys(every, self.size)
            scalars |= dict(zip(named, numbers, strict=True))
            if all(evaluated(one, scalars) for one in kernel.assumptions):
                self.given |= {every[variable]: int(scalars[variable]) for variable in named}
                return True
        return False

    def shape(self, site: Site) -> tuple[int, ...]:
        return tuple(self.value(size, self.given) or 0 for size in self.facts.shapes[site.node.object])

    def places(self, site: Site) -> Iterator[Place]:
        """Where it is done for sure; nothing if that cannot be told."""
        if not site.sure or any(loop not in self.facts.counters for loop in site.loops):
            return
        left = MOST
        for instance in range(self.count):
            for values, rounds in self._rounds(site.loops, {**self.given, self.facts.instance: instance}):
                left -= 1
                if left < 0:
                    return
                if all((told := self.value(form, values)) is not None and told >= 0 for form in site.known):
                    index = [self.value(form, values) for form in site.index]
                    if not any(one is None for one in index):
                        yield Place(instance, tuple(one or 0 for one in index), rounds)

    def _rounds(self, loops: tuple[int, ...], values: dict[Symbol, int]) -> Iterator[tuple[dict[Symbol, int], dict[int, int]]]:
        if not loops:
            yield values, {}
            return
        found, symbol, start = self.facts.counters[loops[0]]
        bound = self.facts.values.forms.get(id(found.bound))
        first = self.value(start, values) if start is not None else None
        last = self.value(bound, values) if bound is not None else None
        if first is None or last is None or not found.exact:
            return
        end = last + (found.operator == "<=") - (found.operator == ">=")
        for number in range(first, end, found.step)[:MOST]:
            for inner, rounds in self._rounds(loops[1:], {**values, symbol: number}):
                yield inner, {loops[0]: number, **rounds}

    def value(self, form: Form, values: dict[Symbol, int]) -> int | None:
        known = {}
        for symbol in form.symbols:
            found = self._of(symbol, values)
            if found is None:
                return None
            known[symbol] = found
        number = form.value(known)
        return number if abs(number) < 2**31 else None  # it may wrap around

    def _of(self, symbol: Symbol, values: dict[Symbol, int]) -> int | None:
        if symbol in values:
            return values[symbol]
        if symbol.kind in ("quotient", "rest") and symbol.of is not None and symbol.by is not None:
            left, right = self.value(symbol.of, values), self.value(symbol.by, values)
            if left is None or right is None:
                return None
            quotient = 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if symbol.kind == "quotient" else left - quotient * right if right else 0
        if symbol.kind == "wrapped" and symbol.of is not None:
            return self.value(symbol.of, values)
        meaning = self.facts.meaning.get(symbol)
        if meaning is not None:
            return self.value(meaning, values)
        return self._either(symbol, values)

    def _either(self, symbol: Symbol, values: dict[Symbol, int]) -> int | None:
        """Which of two values it is, if what is known of one of them does not hold."""
        left: list[Form] = []
        for value, known in self.facts.values.prover.cases.get(symbol, ()):
            told = [self.value(form, values) for form in known]
            if not any(one is not None and one < 0 for one in told):
                left.append(value)
        return self.value(left[0], values) if len(left) == 1 else None


def meetings(facts: Facts, one: Site, other: Site, ways: list[frozenset[int]]) -> Iterator[Small]:
    """Sizes with which two instances use the same element. `ways`: loops in whose same round both are."""
    for small in Small.all(facts):
        shape = small.shape(one)
        for rounds in ways:
            if not rounds.issuperset(one.loops) and any(ways):
                continue  # which rounds meet is not known
            seen: dict[tuple[object, ...], int] = {}
            for place in small.places(one):
                seen.setdefault(_key(place, rounds), place.instance)
            for place in small.places(other):
                first = seen.get(_key(place, rounds))
                if first is not None and first != place.instance and _inside(place.index, shape):
                    yield small
                    break


def beyond(facts: Facts, site: Site) -> Iterator[Small]:
    """Sizes with which an instance is out of bounds."""
    for small in Small.all(facts):
        shape = small.shape(site)
        for place in small.places(site):
            if not _inside(place.index, shape):
                yield small
                break


def _key(place: Place, rounds: frozenset[int]) -> tuple[object, ...]:
    return place.index, *(place.rounds.get(loop) for loop in sorted(rounds))


def _inside(index: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= one < size for one, size in zip(index, shape, strict=True))
