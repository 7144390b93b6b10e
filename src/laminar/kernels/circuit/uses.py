"""What a statement reads and changes: variables, arrays; and what it needs from before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from laminar.kernels.language.tree import (
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    Declare,
    If,
    Leave,
    Load,
    Loop,
    Object,
    Read,
    Scope,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)


@dataclass
class Uses:
    """`needs`: variables that are read before they are surely set here. `sets`: that may be changed. `surely`: that are set in any case.
    `loads` and `stores`: accesses of arrays; an atomic one is among the stores."""

    needs: set[Variable] = field(default_factory=set)
    sets: set[Variable] = field(default_factory=set)
    surely: set[Variable] = field(default_factory=set)
    loads: list[Load] = field(default_factory=list)
    stores: list[Store | Atomic] = field(default_factory=list)
    declared: set[Object] = field(default_factory=set)
    leaves: bool = False  # by break, continue or return, to a place outside

    @property
    def read(self) -> set[Object]:
        return {one.object for one in self.loads} | {one.object for one in self.stores if isinstance(one, Atomic)}

    @property
    def written(self) -> set[Object]:
        return {one.object for one in self.stores}

    def then(self, later: Uses) -> Uses:
        """Of both, one after the other."""
        needs = self.needs | (later.needs - self.surely)
        made = Uses(needs, self.sets | later.sets, self.surely | later.surely, self.loads + later.loads, self.stores + later.stores)
        made.declared = self.declared | later.declared
        made.leaves = self.leaves or later.leaves
        return made


def uses(block: Iterable[Statement]) -> Uses:
    found = Uses()
    for one in block:
        found = found.then(of_statement(one))
    return found


def of_statement(one: Statement) -> Uses:
    found = Uses()
    for whole in expressions(one):
        for part in walk(whole):
            if isinstance(part, Read):
                found.needs.add(part.variable)
            elif isinstance(part, Load):
                found.loads.append(part)
    match one:
        case Assign():
            found.sets.add(one.variable)
            found.surely.add(one.variable)
        case Declare(what=Variable() as variable):
            found.sets.add(variable)  # what it held is gone, also if nothing is assigned
            found.surely.add(variable)
        case Declare(what=Object() as array):
            found.declared.add(array)
        case Store() | Atomic():
            found.stores.append(one)
        case Break() | Continue() | Leave():
            found.leaves = True
        case If():
            return found.then(_either(uses(one.then), uses(one.other)))
        case Scope():
            inner = uses(one.body)
            if inner.leaves:  # what stands behind a return is not sure
                inner.surely = _first_sure(one.body)
            inner.leaves = any(isinstance(part, Leave) and part.number != one.number for part in statements(one.body))
            return inner
        case Loop():
            return _of_loop(one, found)
    return found


def _of_loop(loop: Loop, condition: Uses) -> Uses:
    before, body, update = uses(loop.before), uses(loop.body), uses(loop.update)
    around = body.then(update).then(before).then(condition) if loop.test_last else before.then(condition).then(body).then(update)
    first = before.then(condition)
    around.surely = set() if loop.test_last else set(first.surely)
    around.leaves = any(isinstance(part, Leave) for part in statements(loop.body))
    return around


def _either(one: Uses, other: Uses) -> Uses:
    made = Uses(
        one.needs | other.needs, one.sets | other.sets, one.surely & other.surely, one.loads + other.loads, one.stores + other.stores
    )
    made.leaves = one.leaves or other.leaves
    return made


def _first_sure(block: Block) -> set[Variable]:
    found: set[Variable] = set()
    for one in block:
        inner = of_statement(one)
        if inner.leaves:
            break
        found |= inner.surely
    return found
