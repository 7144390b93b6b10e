"""Compare proved facts about accesses and loops with what happens when the kernel is emulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.proofs import Fact, Proofs
from laminar.kernels.analyse.terms import Run
from laminar.kernels.language.tree import Loop, Object, Variable

Sides: TypeAlias = tuple[tuple[int, int], ...]
Shapes: TypeAlias = Mapping[Object, Sequence[int]]


@dataclass(frozen=True)
class Claims:
    """The facts of a kernel, and for each access or loop, by id, the numbers of its facts."""

    facts: tuple[Fact, ...] = ()
    numbers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def of(proofs: Proofs) -> Claims:
        numbers: dict[int, tuple[int, ...]] = {}
        for number, fact in enumerate(proofs.every):
            numbers[id(fact.of)] = (*numbers.get(id(fact.of), ()), number)
        return Claims(tuple(proofs.every), numbers)


class Held:
    """Checks facts in one run. `_sides`: for each fact whose condition holds in this run, the limits of its indices or of the counter."""

    def __init__(self, claims: Claims, values: Mapping[Variable, int], count: int, shapes: Shapes, file: str) -> None:
        self._claims, self._file = claims, file
        run = Run(values, 0, count)
        self._sides = [_sides(fact, run, shapes) for fact in claims.facts]

    def held(self, number: int, instance: int, index: tuple[int, ...]) -> None:
        """Called for each access, and for each round of a loop with its counter. Raises L900."""
        sides = self._sides[number]
        if sides is None or all(low <= one <= high for one, (low, high) in zip(index, sides, strict=True)):
            return
        fact = self._claims.facts[number]
        name = "the loop" if isinstance(fact.of, Loop) else f"`{fact.of.object.name}`"
        where, ends = f"{self._file}:{fact.of.at.line}:{fact.of.at.column}", " and ".join(f"{low} to {high}" for low, high in sides)
        said = f"a bug in Laminar: {where}: of {name} is proved that {fact.reason} ({ends}), and in instance {instance} it is {index}"
        raise LaminarError("L900", said, hint="laminar doctor")


def _sides(fact: Fact, run: Run, shapes: Shapes) -> Sides | None:
    """The limits that a fact states for this run; None if its condition does not hold."""
    if not all(run.holds(test) for test in fact.condition):
        return None
    told = [(run.value(one.low), run.value(one.high)) for one in fact.index]
    if isinstance(fact.of, Loop):
        return tuple(told) or None
    within = [(0, size - 1) for size in shapes[fact.of.object]]
    return tuple((max(low, first), min(high, last)) for (low, high), (first, last) in zip(told or within, within, strict=True))
