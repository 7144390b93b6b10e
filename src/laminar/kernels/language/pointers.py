"""Pointers while a kernel is read: what each one points at, at the place that is being read.

None of them is left in the tree. `*p` becomes the variable or the element that p points at there; an element's indices are kept in
variables of the pointer's own, and whether it is NULL in one more, for places where that depends on the run. What a pointer may point at
is followed through branches and loops; where two ways meet, it may be what it is on either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from laminar.kernels.language.tree import At, Object, Type, Variable


@dataclass(frozen=True)
class Spot:
    """What an address stands for: a variable, all of an array, or with an `index` one of its elements. `fixed`: it is const."""

    what: Variable | Object
    index: tuple[Variable, ...] | None = None
    fixed: bool = field(default=False, compare=False)
    at: At = field(default=At(1, 1), compare=False)

    def __str__(self) -> str:
        return f"`{self.what.name}`" if self.index is None else f"an element of `{self.what.name}`"


@dataclass(frozen=True)
class Points:
    """All that a pointer may be at a place. `unset`: nothing was assigned to it; `ended`: names of variables and arrays whose block has
    ended, and the lines that declare them."""

    spots: frozenset[Spot] = frozenset()
    null: bool = False
    unset: bool = False
    ended: frozenset[tuple[str, int]] = frozenset()
    null_at: At = field(default=At(1, 1), compare=False)

    @property
    def maybe_null(self) -> bool:
        return self.null and bool(self.spots or self.ended)

    def ordered(self) -> list[Spot]:
        """In the order of the text."""
        return sorted(self.spots, key=lambda one: (one.at, one.what.name))


@dataclass(frozen=True, eq=False)
class Pointer:
    """`reads_only`: `const float *p`. `fixed`: `float *const p`. `always`: what it points at if nothing is assigned to it after its
    declaration; of others, which move, Flow says it for each place. `is_set`: of those that move, whether it is not NULL. `offsets`: of
    those, the indices of the element, by the array and the types of its indices."""

    name: str
    type: Type
    at: At
    reads_only: bool
    fixed: bool = False
    always: Points | None = None
    is_set: Variable | None = None
    offsets: dict[tuple[Object, tuple[Type, ...]], tuple[Variable, ...]] = field(default_factory=dict)

    @property
    def variables(self) -> list[Variable]:
        """What it is made of in the tree, but for `is_set`."""
        return [one for several in self.offsets.values() for one in several]


Flow: TypeAlias = dict[Pointer, Points]
"""What the pointers that move point at, at one place. It is never changed, but replaced."""
NOTHING: Final[Flow] = {}


def joined(flows: Iterable[Flow | None]) -> Flow | None:
    """Where several ways meet; None is a way that nobody goes. Pointers that not all of them know have ended."""
    ways = [one for one in flows if one is not None]
    if not ways:
        return None
    first, *others = ways
    for other in others:
        first = {pointer: _either(points, other[pointer]) for pointer, points in first.items() if pointer in other}
    return first


def _either(one: Points, other: Points) -> Points:
    if one == other:
        return one
    null_at = one.null_at if one.null else other.null_at
    fixed = {spot for spot in (*one.spots, *other.spots) if spot.fixed}
    spots = frozenset(replace(spot, fixed=spot in fixed) for spot in one.spots | other.spots)
    return Points(spots, one.null or other.null, one.unset or other.unset, one.ended | other.ended, null_at)


def without(flow: Flow | None, ended: set[Variable | Object], pointers: set[Pointer]) -> Flow | None:
    """After the block that declares these."""
    if flow is None:
        return None
    return {pointer: _without(points, ended) for pointer, points in flow.items() if pointer not in pointers}


def _without(points: Points, ended: set[Variable | Object]) -> Points:
    gone = frozenset(one for one in points.spots if one.what in ended)
    if not gone:
        return points
    return replace(points, spots=points.spots - gone, ended=points.ended | {(one.what.name, one.what.at.line) for one in gone})
