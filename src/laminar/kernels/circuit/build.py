"""A kernel as a circuit of functions.

circuit = build(kernel)          # functions, and the order of steps in which they are issued
circuit.steps                    # Function | Fork (a condition and what stands under it) | Cycle (a loop, a round at a time)
                                 # | Series (a loop that counts, some rounds at a time)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from laminar.kernels.analyse.counted import Counted
from laminar.kernels.circuit.cost import cost, expression_cost
from laminar.kernels.circuit.fixed import Fixed
from laminar.kernels.circuit.function import Function, Part, function_of
from laminar.kernels.circuit.lift import lifted
from laminar.kernels.circuit.regions import LONG, Branch, Numbered, Piece, Region, Rounds, regions
from laminar.kernels.circuit.uses import Uses, uses
from laminar.kernels.language.tree import Assign, At, Block, Declare, Expression, Kernel, Loop, Object, Variable, statements


@dataclass(frozen=True)
class Fork:
    condition: Function
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True)
class Cycle:
    """`whole`: all of it as one function, for rounds that are short."""

    condition: Function
    body: tuple[Step, ...]
    test_last: bool
    whole: Function


@dataclass(frozen=True)
class Series:
    """A loop that counts. `whole` runs some of its rounds, one after the other; `body`: the steps of one round, if it has several.
    `computed`: sets what rounds need of what is fixed."""

    counted: Counted
    loop: Loop
    start: Expression
    bound: Expression
    whole: Function
    part: Part
    computed: Block
    body: tuple[Step, ...]


Step: TypeAlias = Function | Fork | Cycle | Series


@dataclass(frozen=True)
class Circuit:
    """`kernel`: the whole, with local arrays that functions share as arrays of its own. `added`: names of these. `functions`: by their
    numbers; a loop whose rounds are cut further is in `steps` alone."""

    kernel: Kernel
    steps: tuple[Step, ...]
    functions: tuple[Function, ...]
    added: frozenset[str]


def build(kernel: Kernel, long: float = LONG) -> Circuit:
    """`long`: nanoseconds of one instance from which on something is a function of its own."""
    before = {one.name for one in kernel.parameters}
    whole = lifted(kernel, _shared_locals(kernel, regions(kernel.body, Fixed.of(kernel), long)))
    made: list[Function] = []
    fixed = Fixed.of(whole)
    steps = _Builder(whole, made).steps(regions(whole.body, fixed, long), set(), fixed, guarded=False)
    return Circuit(whole, steps, tuple(made), frozenset(one.name for one in whole.parameters) - before)


def _shared_locals(kernel: Kernel, found: Sequence[Region]) -> frozenset[Object]:
    times = Counter(one for block in _blocks(found) for one in uses(block).read | uses(block).written)
    for numbered in _numbered(found):  # several functions run rounds of it
        here, inner = uses(numbered.block), {one.what for one in statements(numbered.block) if isinstance(one, Declare)}
        times.update((here.read | here.written) - inner)
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
            case Numbered():
                yield one.block


def _numbered(found: Sequence[Region]) -> Iterator[Numbered]:
    """None stands under a condition."""
    yield from (one for one in found if isinstance(one, Numbered))


def _tested(at: At, before: Block, condition: Expression) -> Block:
    return (*before, Assign(at, Variable("test", "bool", at), condition))


def _needs(found: Sequence[Region]) -> set[Variable]:
    """Variables that these may need from before; those that are set within on the way count, too, where that is not sure."""
    total = Uses()
    for one in found:
        total = total.then(_uses(one))
    return total.needs


def _uses(one: Region) -> Uses:
    if isinstance(one, (Piece, Numbered)):
        return uses(one.block)
    inner = [uses(block) for block in _blocks((one,))]
    total = Uses()
    for part in inner:
        total.needs |= part.needs
    return total  # nothing is sure to be set: what is needed behind it is needed before it, too


class _Builder:
    def __init__(self, whole: Kernel, made: list[Function]) -> None:
        self.whole, self.made, self.cut = whole, made, 0

    def steps(self, found: Sequence[Region], live: set[Variable], fixed: Fixed, *, guarded: bool) -> tuple[Step, ...]:
        return tuple(self.step(one, live | _needs(found[number + 1 :]), fixed, guarded=guarded) for number, one in enumerate(found))

    def step(self, one: Region, live: set[Variable], fixed: Fixed, *, guarded: bool) -> Step:
        match one:
            case Piece():
                return self.function(one.at, one.block, live, fixed, guarded=guarded)
            case Branch():
                within = live | _needs(one.then) | _needs(one.other)
                condition = self.function(one.at, one.before, within, fixed, guarded=guarded, test=one.condition)
                sides = [self.steps(side, live, fixed, guarded=True) for side in (one.then, one.other)]
                return Fork(condition, *sides)
            case Rounds():
                again = live | _needs(one.body) | uses(_tested(one.at, one.before, one.condition)).needs
                whole = self.uncut(one.at, (one.loop,), live, fixed, guarded=guarded)
                if one.test_last:
                    body = self.steps(one.body, again, fixed, guarded=True)
                    condition = self.function(one.at, one.before, again, fixed, guarded=True, test=one.condition)
                    return Cycle(condition, body, True, whole)
                condition = self.function(one.at, one.before, again, fixed, guarded=True, test=one.condition)
                return Cycle(condition, self.steps(one.body, again, fixed, guarded=True), False, whole)
            case Numbered():
                return self.series(one, fixed)

    def series(self, one: Numbered, fixed: Fixed) -> Series:
        part = Part.of(one.counted)
        body = self.steps(one.body, set(), fixed.within(one.counted.counter), guarded=False)
        if body:
            whole = self.uncut(one.at, one.block, set(), fixed, guarded=False, part=part)
        else:
            whole = self.function(one.at, one.block, set(), fixed, guarded=False, part=part)
        computed = fixed.computed(fixed.needed(uses(one.block).needs))
        return Series(one.counted, one.loop, one.start, one.bound, whole, part, computed, body)

    def uncut(self, at: At, block: Block, live: set[Variable], fixed: Fixed, *, guarded: bool, part: Part | None = None) -> Function:
        """A loop as one function, beside those of its rounds."""
        self.cut += 1
        return function_of(self.whole, -self.cut, block, live, fixed, at=at, guarded=guarded, cost=cost(block), part=part)

    def function(
        self,
        at: At,
        block: Block,
        live: set[Variable],
        fixed: Fixed,
        *,
        guarded: bool,
        test: Expression | None = None,
        part: Part | None = None,
    ) -> Function:
        takes = cost(block) + (expression_cost(test) if test is not None else 0.0)
        made = function_of(self.whole, len(self.made), block, live, fixed, at=at, guarded=guarded, cost=takes, test=test, part=part)
        self.made.append(made)
        return made
