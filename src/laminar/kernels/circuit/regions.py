"""A kernel's body cut into what may run apart: pieces without control flow of their own, branches, loops.

A branch becomes a condition, which is a function with one logical output, and two lists of regions that run or are ignored. A loop becomes
the functions of one round, made again for each round. Of a loop that counts, all rounds are known before it begins; they may also go to
functions several at a time. Only what is long enough is cut: the rest stays within its piece.

Which statements stay together is decided in groups.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from laminar.kernels.analyse.counted import Counted, counted
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.fixed import Fixed
from laminar.kernels.circuit.groups import grouped
from laminar.kernels.circuit.uses import of_statement, uses
from laminar.kernels.language.tree import (
    Assign,
    At,
    Atomic,
    Barrier,
    Block,
    Declare,
    Expression,
    If,
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

LONG: Final = 100.0  # nanoseconds of one instance: what takes longer is a function of its own


@dataclass(frozen=True)
class Piece:
    at: At
    block: Block


@dataclass(frozen=True)
class Branch:
    """`before` and `condition` are one function."""

    at: At
    before: Block
    condition: Expression
    then: tuple[Region, ...]
    other: tuple[Region, ...]


@dataclass(frozen=True)
class Rounds:
    """A loop. `before` and `condition` are one function, `body` is what a round does, with what the loop does between rounds."""

    at: At
    before: Block
    condition: Expression
    body: tuple[Region, ...]
    test_last: bool
    loop: Loop


@dataclass(frozen=True)
class Numbered:
    """A loop that counts from `start` to `bound`, which are made of what is known before it begins, and in which a round takes nothing from
    the one before but by arrays. `block` declares the counter, sets it, and is the loop. `body`: regions of a round, if it has several."""

    at: At
    block: Block
    loop: Loop
    counted: Counted
    start: Expression
    bound: Expression
    body: tuple[Region, ...]


Region: TypeAlias = Piece | Branch | Rounds | Numbered
_BUNDLED: Final = -1  # number of a scope that is made here, and which nothing leaves


def regions(block: Block, fixed: Fixed, long: float = LONG, *, guarded: bool = False) -> tuple[Region, ...]:
    """In an order in which they may run one after the other. `guarded`: whether they run depends on a condition."""
    block = _bundled(_without(block, fixed))
    opened = {number: inner for number, one in enumerate(block) if (inner := _opened(one, fixed, long, guarded=guarded)) is not None}
    found: list[Region] = []
    for group in grouped(block, frozenset(opened), long):
        last = opened.get(group[-1])
        before = _unbundled(block[number] for number in group[:-1])
        alone = not any(number in opened for number in group[:-1])
        if isinstance(last, Branch) and alone:
            found.append(replace(last, before=before))
        elif last is not None and not before:
            found.append(last)
        else:
            found.append(Piece(block[group[0]].at, (*before, *_unbundled((block[group[-1]],)))))
    return tuple(found)


def _without(block: Block, fixed: Fixed) -> Block:
    """Without variables that each function computes itself."""
    made: list[Statement] = []
    for one in block:
        variable = one.variable if isinstance(one, Assign) else one.what if isinstance(one, Declare) else None
        if variable not in fixed.meaning:
            made.append(one)
    return tuple(made)


def _bundled(block: Block) -> Block:
    """With each loop that counts, what declares its counter and what sets it as one statement, if nothing else there uses the counter."""
    made = list(block)
    for loop in [one for one in block if isinstance(one, Loop)]:
        place = next(number for number, one in enumerate(made) if one is loop)
        found = counted(loop, tuple(made[:place]))
        if found is None or found.start is None:
            continue
        mentioned = [number for number, one in enumerate(made) if number != place and _mentions(one, found.counter)]
        if len(mentioned) == 2 and isinstance(first := made[mentioned[0]], Declare) and isinstance(second := made[mentioned[1]], Assign):
            made[place] = Scope(loop.at, "", _BUNDLED, (first, second, loop))
            made = [one for number, one in enumerate(made) if number not in mentioned]
    return tuple(made)


def _unbundled(these: Iterable[Statement]) -> Block:
    return tuple(part for one in these for part in (one.body if isinstance(one, Scope) and one.number == _BUNDLED else (one,)))


def _mentions(whole: Statement, variable: Variable) -> bool:
    for one in statements((whole,)):
        if (isinstance(one, Assign) and one.variable is variable) or (isinstance(one, Declare) and one.what is variable):
            return True
        if any(isinstance(part, Read) and part.variable is variable for each in expressions(one) for part in walk(each)):
            return True
    return False


def _opened(one: Statement, fixed: Fixed, long: float, *, guarded: bool) -> Region | None:
    """The region of a branch or loop that is worth it."""
    if isinstance(one, If) and cost((one,)) > long and not of_statement(one).leaves and not _arrays(one):
        sides = [regions(block, fixed, long, guarded=True) for block in (one.then, one.other)]
        return Branch(one.at, (), one.condition, *sides)
    if isinstance(one, Scope) and one.number == _BUNDLED and not guarded and cost((one,)) > long:
        return _numbered(one.body, fixed, long)
    if isinstance(one, Loop) and _worth_rounds(one, long):
        body = regions((*one.body, *one.update), fixed, long, guarded=True)
        return Rounds(one.at, one.before, one.condition, body, one.test_last, one)
    return None


def _numbered(block: Block, fixed: Fixed, long: float) -> Numbered | None:
    loop = block[-1]
    assert isinstance(loop, Loop)
    found = counted(loop, block[:-1])
    if found is None or found.start is None or found.wide or not found.exact or loop.before or loop.update != (found.update,):
        return None
    start, bound = fixed.known(found.start), fixed.known(found.bound)
    inside = list(statements(loop.body))
    own = {one.what for one in inside if isinstance(one, Declare)}
    carried = {one.variable for one in inside if isinstance(one, Assign)} - own
    if start is None or bound is None or carried or any(isinstance(one, Barrier) for one in inside):
        return None
    within = fixed.within(found.counter)
    cut = not uses(loop.body).leaves and not _arrays(loop)
    body = regions(loop.body, within, long) if cut else ()
    if not any(isinstance(one, Numbered) for one in body) and sum(_long(one, long) for one in body) < 2:
        body = ()  # nothing in a round may run at once
    if not body and not _by_round(inside, found.counter, own):
        return None
    return Numbered(loop.at, block, loop, found, start, bound, body)


def _long(one: Region, long: float) -> bool:
    return not isinstance(one, Piece) or cost(one.block) > long


def _by_round(inside: Iterable[Statement], counter: Variable, own: set[Variable | Object]) -> bool:
    """Does every round write elements of its own, as far as indices tell? Else rounds can only come one after the other."""
    told, before = {counter}, 0
    every = list(inside)
    while len(told) > before:
        before = len(told)
        told |= {one.variable for one in every if isinstance(one, Assign) and _reads((one.value,), told)}
    stores = [one for one in every if isinstance(one, (Store, Atomic)) and one.object not in own]
    return all(_reads(one.index, told) for one in stores)


def _reads(these: Iterable[Expression], variables: set[Variable]) -> bool:
    return any(isinstance(part, Read) and part.variable in variables for one in these for part in walk(one))


def _worth_rounds(loop: Loop, long: float) -> bool:
    """Rounds pay if each is long; one that only counts is better left whole. Break and continue keep it whole."""
    if uses(loop.body).leaves or _arrays(loop):
        return False
    return cost((*loop.before, *loop.body)) > long and counted(loop) is None


def _arrays(one: Statement) -> bool:
    """Local arrays that are declared within stay within."""
    return any(isinstance(part, Barrier) or (isinstance(part, Declare) and isinstance(part.what, Object)) for part in statements((one,)))
