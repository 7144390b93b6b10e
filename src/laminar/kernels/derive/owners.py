"""How the gradients of an input are added up.

register   every load of the array is of the same element, which is this instance's: summed in a variable, stored once
own        other instances load other elements: added in place
atomic     else; in one thread instances keep their order, so that sums are the same each time
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

from laminar.kernels.analyse.barriers import Intervals
from laminar.kernels.analyse.facts import Facts
from laminar.kernels.analyse.races import Races
from laminar.kernels.derive.sweep import Way
from laminar.kernels.language.same import same_all
from laminar.kernels.language.tree import (
    Assign,
    Block,
    Expression,
    If,
    Kernel,
    Load,
    Loop,
    Object,
    Read,
    Variable,
    blocks,
    expressions,
    parts,
    statements,
    walk,
)


@dataclass
class Owners:
    """Of the arrays of a kernel; `body` is made of the kernel's own expressions."""

    kernel: Kernel
    body: Block
    races: Races

    @staticmethod
    def of(kernel: Kernel, body: Block) -> Owners:
        return Owners(kernel, body, Races(Facts.of(kernel), Intervals.of(kernel)))

    def way(self, object_: Object) -> Way:
        loads = (part for one in statements(self.body) for whole in expressions(one) for part in walk(whole))
        found = [part for part in loads if isinstance(part, Load) and part.object is object_]
        if not found or not all(self.races.apart(one, other) for one, other in combinations_with_replacement(found, 2)):
            return "atomic"
        fixed = all(same_all(one.index, found[0].index) for one in found) and _stays(self.kernel, self.body, found[0].index)
        return "register" if fixed and any(one is load for one in _sure(self.body) for load in found) else "own"


def index_of(body: Block, object_: Object) -> tuple[Expression, ...]:
    """Of the one element that is loaded."""
    loads = (part for one in statements(body) for whole in expressions(one) for part in walk(whole))
    return next(one.index for one in loads if isinstance(one, Load) and one.object is object_)


def _stays(kernel: Kernel, body: Block, index: tuple[Expression, ...]) -> bool:
    """Made of parameters that nothing changes."""
    fixed: set[Variable] = {one.of for one in kernel.parameters if isinstance(one.of, Variable)}
    fixed -= {one.variable for one in statements(body) if isinstance(one, Assign)}
    return all(not isinstance(part, Load) and (not isinstance(part, Read) or part.variable in fixed) for one in index for part in walk(one))


def _sure(body: Block) -> Iterator[Expression]:
    """Expressions that every instance computes."""
    for one in body:
        for whole in expressions(one):
            yield from _computed(whole)
        if not isinstance(one, If | Loop):
            for inner in blocks(one):
                yield from _sure(inner)


def _computed(one: Expression) -> Iterator[Expression]:
    """Of `c ? a : b`, `c and a`: c only."""
    yield one
    inner = parts(one)
    lazy = type(one).__name__ == "Choice" or getattr(one, "operator", "") in ("and", "or")
    for part in inner[:1] if lazy else inner:
        yield from _computed(part)
