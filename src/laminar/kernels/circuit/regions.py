"""A kernel's body cut into what may run apart: pieces without control flow of their own, branches, loops.

A branch becomes a condition, which is a function with one logical output, and two lists of regions that run or are ignored. A loop becomes
the functions of one round, made again for each round. Only what is long enough is cut: the rest stays within its piece.

Which statements stay together is decided in groups.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from laminar.kernels.analyse.counted import counted
from laminar.kernels.circuit.cost import cost
from laminar.kernels.circuit.groups import grouped
from laminar.kernels.circuit.uses import of_statement, uses
from laminar.kernels.language.tree import At, Barrier, Block, Declare, Expression, If, Loop, Object, Statement, statements

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


Region: TypeAlias = Piece | Branch | Rounds


def regions(block: Block, long: float = LONG) -> tuple[Region, ...]:
    """In an order in which they may run one after the other."""
    opened = {number: inner for number, one in enumerate(block) if (inner := _opened(one, long)) is not None}
    found: list[Region] = []
    for group in grouped(block, frozenset(opened), long):
        last = opened.get(group[-1])
        before = tuple(block[number] for number in group[:-1])
        alone = not any(number in opened for number in group[:-1])
        if isinstance(last, Branch) and alone:
            found.append(replace(last, before=before))
        elif last is not None and not before:
            found.append(last)
        else:
            found.append(Piece(block[group[0]].at, (*before, block[group[-1]])))
    return tuple(found)


def _opened(one: Statement, long: float) -> Region | None:
    """The region of a branch or loop that is worth it."""
    if isinstance(one, If) and cost((one,)) > long and not of_statement(one).leaves and not _arrays(one):
        return Branch(one.at, (), one.condition, regions(one.then, long), regions(one.other, long))
    if isinstance(one, Loop) and _worth_rounds(one, long):
        body = regions((*one.body, *one.update), long)
        return Rounds(one.at, one.before, one.condition, body, one.test_last)
    return None


def _worth_rounds(loop: Loop, long: float) -> bool:
    """Rounds pay if each is long; one that only counts is better left whole. Break and continue keep it whole."""
    if uses(loop.body).leaves or _arrays(loop):
        return False
    return cost((*loop.before, *loop.body)) > long and counted(loop) is None


def _arrays(one: Statement) -> bool:
    """Local arrays that are declared within stay within."""
    return any(isinstance(part, Barrier) or (isinstance(part, Declare) and isinstance(part.what, Object)) for part in statements((one,)))
