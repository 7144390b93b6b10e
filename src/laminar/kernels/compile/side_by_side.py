"""Accesses of an instance that are a fixed distance apart: one of them tells for all whether instances meet.

`y[at[i]] = …; y[at[i] + n] = …;` of any two instances: either both places are the same element, or both are others, or the first place
of one is the second of the other. So it is enough to mark the first places as they are written, which finds the former, and to lay
the marks over each other, moved by the distance, when all instances are done. Half of the marks at random places are half of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.compile.marks import UNKNOWN
from laminar.kernels.language.tree import (
    Atomic,
    Binary,
    Break,
    Choice,
    Continue,
    Expression,
    Kernel,
    Leave,
    Load,
    Loop,
    Object,
    Store,
    Variable,
    expressions,
    parts,
    statements,
    walk,
)

HALF: Final = 1 << 31


@dataclass(frozen=True)
class SideBySide:
    """`others`: ids of the accesses that `first` stands for. `apart`: how far two of which one writes are apart, in each dimension, in
    terms of parameters and up to multiples of 2**32: a long may be made of an int that has wrapped around."""

    first: Load | Store | Atomic
    others: frozenset[int]
    apart: tuple[tuple[Form, ...], ...]
    parameters: Mapping[Symbol, Variable]

    @staticmethod
    def of(facts: Facts, found: list[Load | Store | Atomic]) -> SideBySide | None:
        """Of all accesses to one array; None if they are not so, or not all done by each instance."""
        sure = set(_done_by_all(facts.kernel))
        if len(found) < 2 or any(isinstance(one, Atomic) or id(one) not in sure for one in found):
            return None
        same, apart = _same(facts), []
        for one, other in combinations(found, 2):
            distance = _distance(facts, same, one, other)
            if distance is None:
                return None
            if isinstance(one, Store) or isinstance(other, Store):
                apart.append(distance)
        symbols = {symbol: variable for variable, symbol in facts.parameters.items()}
        first, *others = found
        return SideBySide(first, frozenset(id(one) for one in others), tuple(apart), symbols)

    def distances(self, scalars: Mapping[Variable, Any], shapes: Mapping[Object, tuple[int, ...]]) -> list[int]:
        """Of `apart`: if two first places are so far apart, a place of one instance is another place of another. 0: that cannot be."""
        if any(size > HALF for shape in shapes.values() for size in shape):
            return [UNKNOWN] * len(self.apart)  # of numbers that differ by a multiple of 2**32, both may be places there
        shape = shapes[self.first.object]
        found = [abs(self._flat(one, scalars, shape)) for one in self.apart]
        return [one if one < math.prod(shape) else 0 for one in found]

    def _flat(self, apart: tuple[Form, ...], scalars: Mapping[Variable, Any], shape: tuple[int, ...]) -> int:
        total = 0
        for form, size in zip(apart, shape, strict=True):
            value = form.value({symbol: int(scalars[self.parameters[symbol]]) for symbol in form.symbols})
            total = total * size + (value + HALF) % (2 * HALF) - HALF  # both places are within the array
        return total


def _same(facts: Facts) -> dict[Symbol, Form]:
    """Loads of one element of an array that nobody changes: the first of them stands for the others."""
    made: dict[Symbol, Form] = {}
    every = list(statements(facts.kernel.body))
    changed = {one.object for one in every if isinstance(one, (Store, Atomic))}
    first: dict[tuple[Object, tuple[Form | None, ...]], Form] = {}
    for node in (part for one in every for whole in expressions(one) for part in walk(whole)):
        form = facts.form(node) if isinstance(node, Load) and node.object not in changed else None
        if form is None or form.single is None or form.single.kind != "opaque" or not isinstance(node, Load):
            continue
        index = tuple(None if (place := facts.form(one)) is None else place.replaced(made) for one in node.index)
        if None not in index:
            made[form.single] = first.setdefault((node.object, index), form)
    return made


def _distance(
    facts: Facts, same: Mapping[Symbol, Form], one: Load | Store | Atomic, other: Load | Store | Atomic
) -> tuple[Form, ...] | None:
    made = []
    for left, right in zip(one.index, other.index, strict=True):
        first, second = facts.form(left), facts.form(right)
        if first is None or second is None or left.type != right.type:
            return None
        difference = second.replaced(same) - first.replaced(same)
        if any(symbol.varying for symbol in difference.symbols) or difference.symbols - set(facts.parameters.values()):
            return None
        made.append(difference)
    return tuple(made)


def _done_by_all(kernel: Kernel) -> Iterator[int]:
    """Ids of the accesses that each instance does just once."""
    if any(isinstance(one, (Leave, Break, Continue)) for one in statements(kernel.body)):
        return
    for statement in kernel.body:
        if isinstance(statement, Loop):
            continue  # its condition is computed in each round
        if isinstance(statement, Store):
            yield id(statement)
        for whole in expressions(statement):
            yield from (id(one) for one in _surely(whole) if isinstance(one, Load))


def _surely(whole: Expression) -> Iterator[Expression]:
    """It and all within that is computed whatever the rest is."""
    yield whole
    inner = parts(whole)
    if isinstance(whole, Choice) or (isinstance(whole, Binary) and whole.operator in ("and", "or")):
        inner = inner[:1]
    for one in inner:
        yield from _surely(one)
