"""Whole numbers that are known before a function runs: values of the caller, the instance, counters of loops whose rounds are apart, and
variables that are set once, to what is made of these. A function computes such a variable itself, so that nobody has to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from laminar.kernels.language.fold import folded
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    Binary,
    Block,
    Cast,
    Choice,
    Constant,
    Declare,
    Expression,
    Kernel,
    Read,
    Statement,
    Unary,
    Variable,
    blocks,
    statements,
    walk,
)

_PLAIN: Final = (Constant, Read, Unary, Binary, Choice, Cast)


@dataclass(frozen=True)
class Fixed:
    """`counters`: of the loops around, each of which has one value while a function runs. `meaning`: of variables, as they are written."""

    kernel: Kernel
    counters: frozenset[Variable] = frozenset()
    meaning: dict[Variable, Expression] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel, counters: Iterable[Variable] = ()) -> Fixed:
        made = Fixed(kernel, frozenset(counters))
        changed = [one.variable for one in statements(kernel.body) if isinstance(one, Assign)]
        declared = [one.what for one in statements(kernel.body) if isinstance(one, Declare)]
        start = {one.of for one in kernel.parameters if isinstance(one.of, Variable)} - set(changed) | made.counters
        once: list[tuple[Variable, Expression]] = []
        for block in (kernel.body, *(inner for one in statements(kernel.body) for inner in blocks(one))):
            for before, after in pairwise(block):
                if isinstance(before, Declare) and isinstance(after, Assign) and after.variable is before.what:
                    once.append((after.variable, after.value))
        for variable, value in once:  # what a variable is made of stands before it
            whole = variable.type in WHOLE and all(isinstance(part, _PLAIN) and part.type in WHOLE for part in walk(value))
            alone = changed.count(variable) == 1 and declared.count(variable) == 1
            read = {part.variable for part in walk(value) if isinstance(part, Read)}
            if whole and alone and read <= start | made.meaning.keys():
                made.meaning[variable] = value
        return made

    def within(self, counter: Variable) -> Fixed:
        """In a round of a loop."""
        return Fixed.of(self.kernel, self.counters | {counter})

    def known(self, expression: Expression) -> Expression | None:
        """The same, made of values, the number of instances and counters alone; None: it is known later, or differs among instances."""
        if not all(isinstance(part, _PLAIN) and part.type in WHOLE for part in walk(expression)):
            return None
        made = _Replaced(self.meaning).expression(expression)
        changed = {one.variable for one in statements(self.kernel.body) if isinstance(one, Assign)}
        given = {one.of for one in self.kernel.parameters if one.role in ("count", "value")} - changed | self.counters
        return made if {part.variable for part in walk(made) if isinstance(part, Read)} <= given else None

    def needed(self, variables: Iterable[Variable]) -> list[Variable]:
        """Those of these that are computed where they are needed, and those that they are made of, in order."""
        found: set[Variable] = set()
        left = [one for one in variables if one in self.meaning]
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += [part.variable for part in walk(self.meaning[one]) if isinstance(part, Read) and part.variable in self.meaning]
        return [one for one in self.meaning if one in found]

    def computed(self, variables: Sequence[Variable]) -> Block:
        """Statements that set them."""
        made: list[Statement] = []
        for one in variables:
            at = self.meaning[one].at
            made += [Declare(at, one), Assign(at, one, self.meaning[one])]
        return tuple(made)


class _Replaced(Rewrite):
    def __init__(self, meaning: Mapping[Variable, Expression]) -> None:
        self._meaning = meaning

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Read) and one.variable in self._meaning:
            return self.expression(self._meaning[one.variable])
        return super().expression(one)


class _Known(Rewrite):
    def __init__(self, values: Mapping[Variable, float]) -> None:
        self._values = values

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Read) and one.variable in self._values:
            return Constant(one.at, one.type, self._values[one.variable])
        return super().expression(one)


def value(expression: Expression, values: Mapping[Variable, float]) -> int | None:
    """As an instance computes it: a number of its type, which may have wrapped around; None while something is not known."""
    found = folded(_Known(values).expression(expression))
    return int(found.value) if found is not None else None
