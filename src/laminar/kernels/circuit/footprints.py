"""Which elements a task uses, as boxes: from the least to the greatest index in each dimension, as the intervals of the function's indices
(analyse/ranges.py) are with the values of this task. Two tasks whose boxes do not meet may run at once.

Such boxes are what tasks of OpenMP and OmpSs say of themselves (Perez, Badia, Labarta, "Handling task dependencies under strided and
aliased references", ICS 2010); here they are proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from laminar.kernels.analyse.ranges import Ranges, Within
from laminar.kernels.analyse.space import Space
from laminar.kernels.circuit.function import Function
from laminar.kernels.circuit.python_terms import PythonTerms
from laminar.kernels.language.tree import Atomic, Load, Object, Store, Variable

Box: TypeAlias = tuple[int, ...]
"""Of each dimension the first and the last index."""
Boxes: TypeAlias = tuple[Box, ...]
BoxesOf: TypeAlias = Callable[[Mapping[Variable, int], int, int], Boxes | None]


@dataclass(frozen=True)
class Used:
    """Of one array; None: maybe all of it. What is read and written is among `written` alone."""

    read: Boxes | None
    written: Boxes | None

    def meets(self, other: Used) -> bool:
        """May one of them use what the other changes?"""
        if self._known and other._known and not (_meet(self._changed, other._all) or _meet(self._all, other._changed)):
            return False  # most do not meet, and this is quick
        return _meet(self.written, other.written) or _meet(self.written, other.read) or _meet(self.read, other.written)

    @cached_property
    def _known(self) -> bool:
        return self.read is not None and self.written is not None

    @cached_property
    def _changed(self) -> Boxes:
        return _around(self.written or ())

    @cached_property
    def _all(self) -> Boxes:
        return _around((self.read or ()) + (self.written or ()))


ALL: Final = Used(None, None)


def _around(boxes: Boxes) -> Boxes:
    """One that has all of them in it."""
    if len(boxes) < 2:
        return boxes
    return (tuple((max if place % 2 else min)(ends) for place, ends in enumerate(zip(*boxes, strict=True))),)


def _meet(some: Boxes | None, others: Boxes | None) -> bool:
    if some is None or others is None:
        return some != () and others != ()
    for one in some:  # no generators: this is done for every two tasks that are open
        for other in others:
            for place in range(0, len(one), 2):
                if one[place] > other[place + 1] or other[place] > one[place + 1]:
                    break
            else:
                return True
    return False


@dataclass(frozen=True)
class Footprints:
    """Of a function: of each array its accesses, those that read and those that write; None: one of which no interval is known."""

    reads: Mapping[Object, tuple[Within, ...] | None]
    writes: Mapping[Object, tuple[Within, ...] | None]

    @staticmethod
    def of(function: Function) -> Footprints:
        ranges = Ranges.of(Space.of(function.kernel))
        loads, stores = function.uses.loads, function.uses.stores
        arrays = function.reads | function.writes
        return Footprints(
            {array: _intervals(ranges, [one for one in loads if one.object is array]) for array in arrays},
            {array: _intervals(ranges, [one for one in stores if one.object is array]) for array in arrays},
        )

    def known(self, array: Object) -> bool:
        """Are all of its accesses to an array within boxes?"""
        return self.reads.get(array) is not None and self.writes.get(array) is not None

    def used(self, values: Mapping[Variable, int], begin: int, end: int) -> dict[Object, Used]:
        """By a task for these instances, in which the kernel's whole numbers are `values`."""
        found: dict[Object, Used] = {}
        for array, reads, writes in self._boxes:
            written = writes(values, begin, end) if writes is not None else None
            read = reads(values, begin, end) if reads is not None else None
            found[array] = Used(tuple(one for one in read if written is None or one not in written) if read is not None else None, written)
        return found

    @cached_property
    def _boxes(self) -> list[tuple[Object, BoxesOf | None, BoxesOf | None]]:
        return [(array, _boxes_of(reads), _boxes_of(self.writes[array])) for array, reads in self.reads.items()]


def _intervals(ranges: Ranges, accesses: Sequence[Load | Store | Atomic]) -> tuple[Within, ...] | None:
    found: dict[object, Within] = {}
    for access in accesses:
        one = ranges.within.get(id(access))
        if one is None:
            return None
        found.setdefault((*((part.low, part.high, part.needs) for part in one.index), one.tests), one)
    return tuple(found.values())


def _boxes_of(accesses: tuple[Within, ...] | None) -> BoxesOf | None:
    """A function of Python that computes all boxes at once: every task asks for them."""
    if accesses is None:
        return None
    code = PythonTerms()
    for one in accesses:
        ends = [code.term(end) for part in one.index for end in (part.low, part.high)]
        needs = code.tests(test for part in one.index for test in part.needs)
        empty = " or ".join(f"{low} > {high}" for low, high in zip(ends[::2], ends[1::2], strict=True))
        code.lines += [
            f"if not (({empty}) and {needs}):",  # else it is never done
            f"    if not {code.tests(one.tests)}: return None",
            f"    boxes[{', '.join(ends)},] = None",
        ]
    return code.function(["boxes = {}"], "tuple(boxes)")
