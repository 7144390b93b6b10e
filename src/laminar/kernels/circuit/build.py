"""A kernel as a circuit of functions.

circuit = build(kernel)          # functions, and the order of steps in which they are issued
circuit.steps                    # Function | Fork (a condition and what stands under it) | Cycle (a loop, a round at a time)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from laminar.kernels.circuit.cost import cost, expression_cost
from laminar.kernels.circuit.function import Function, function_of
from laminar.kernels.circuit.lift import lifted
from laminar.kernels.circuit.regions import LONG, Branch, Piece, Region, Rounds, regions
from laminar.kernels.circuit.uses import Uses, uses
from laminar.kernels.language.tree import Assign, At, Block, Expression, Kernel, Object, Variable


@dataclass(frozen=True)
class Fork:
    condition: Function
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True)
class Cycle:
    condition: Function
    body: tuple[Step, ...]
    test_last: bool


Step: TypeAlias = Function | Fork | Cycle


@dataclass(frozen=True)
class Circuit:
    """`kernel`: the whole, with local arrays that functions share as arrays of its own. `added`: names of these."""

    kernel: Kernel
    steps: tuple[Step, ...]
    functions: tuple[Function, ...]
    added: frozenset[str]


def build(kernel: Kernel, long: float = LONG) -> Circuit:
    """`long`: nanoseconds of one instance from which on something is a function of its own."""
    before = {one.name for one in kernel.parameters}
    whole = lifted(kernel, _shared_locals(kernel, regions(kernel.body, long)))
    made: list[Function] = []
    steps = _Builder(whole, made).steps(regions(whole.body, long), set(), guarded=False)
    return Circuit(whole, steps, tuple(made), frozenset(one.name for one in whole.parameters) - before)


def _shared_locals(kernel: Kernel, found: Sequence[Region]) -> frozenset[Object]:
    times = Counter(one for block in _blocks(found) for one in uses(block).read | uses(block).written)
    return frozenset(one for one in kernel.objects if one.memory == "local" and times[one] > 1)


def _blocks(found: Sequence[Region]) -> Iterator[Block]:
    for one in found:
        match one:
            case Piece():
                yield one.block
            case Branch():
                yield _tested(one.at, one.before, one.condition)
                yield from _blocks(one.then)
                yield from _blocks(one.other)
            case Rounds():
                yield _tested(one.at, one.before, one.condition)
                yield from _blocks(one.body)


def _tested(at: At, before: Block, condition: Expression) -> Block:
    return (*before, Assign(at, Variable("test", "bool", at), condition))


def _needs(found: Sequence[Region]) -> set[Variable]:
    """Variables that these may need from before; those that are set within on the way count, too, where that is not sure."""
    total = Uses()
    for one in found:
        total = total.then(_uses(one))
    return total.needs


def _uses(one: Region) -> Uses:
    if isinstance(one, Piece):
        return uses(one.block)
    inner = [uses(block) for block in _blocks((one,))]
    total = Uses()
    for part in inner:
        total.needs |= part.needs
    return total  # nothing is sure to be set: what is needed behind it is needed before it, too


class _Builder:
    def __init__(self, whole: Kernel, made: list[Function]) -> None:
        self.whole, self.made = whole, made

    def steps(self, found: Sequence[Region], live: set[Variable], *, guarded: bool) -> tuple[Step, ...]:
        return tuple(self.step(one, live | _needs(found[number + 1 :]), guarded=guarded) for number, one in enumerate(found))

    def step(self, one: Region, live: set[Variable], *, guarded: bool) -> Step:
        match one:
            case Piece():
                return self.function(one.at, one.block, live, guarded=guarded)
            case Branch():
                within = live | _needs(one.then) | _needs(one.other)
                condition = self.function(one.at, one.before, within, guarded=guarded, test=one.condition)
                return Fork(condition, self.steps(one.then, live, guarded=True), self.steps(one.other, live, guarded=True))
            case Rounds():
                again = live | _needs(one.body) | uses(_tested(one.at, one.before, one.condition)).needs
                if one.test_last:
                    body = self.steps(one.body, again, guarded=True)
                    return Cycle(self.function(one.at, one.before, again, guarded=True, test=one.condition), body, test_last=True)
                condition = self.function(one.at, one.before, again, guarded=True, test=one.condition)
                return Cycle(condition, self.steps(one.body, again, guarded=True), test_last=False)

    def function(self, at: At, block: Block, live: set[Variable], *, guarded: bool, test: Expression | None = None) -> Function:
        takes = cost(block) + (expression_cost(test) if test is not None else 0.0)
        made = function_of(self.whole, len(self.made), block, live, at=at, guarded=guarded, cost=takes, test=test)
        self.made.append(made)
        return made
