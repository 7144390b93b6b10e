"""The grid of workers: who stands where on the mesh, and who is on one line with whom. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from laminar.parallel.split.dims import At, Mesh

ALL = "*"  # the line of all workers


@dataclass(frozen=True)
class Group:
    """Workers that differ in their place on one axis only; on ALL: every worker."""

    axis: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    mesh: Mesh

    @property
    def size(self) -> int:
        return prod(self.mesh.values())

    def at(self, rank: int) -> dict[str, int]:
        """The last axis runs fastest: neighbours in rank are neighbours on it."""
        found = {}
        for axis, size in reversed(list(self.mesh.items())):
            rank, found[axis] = divmod(rank, size)
        return dict(reversed(found.items()))

    def rank(self, at: At) -> int:
        found = 0
        for axis, size in self.mesh.items():
            found = found * size + at[axis]
        return found

    def groups(self) -> list[Group]:
        """Of all lines there are, in an order that everybody knows."""
        found = [Group(ALL, tuple(range(self.size)))]
        for axis, size in self.mesh.items():
            others = [range(1) if other == axis else range(count) for other, count in self.mesh.items()]
            for places in product(*others):
                at = dict(zip(self.mesh, places, strict=True))
                found.append(Group(axis, tuple(self.rank({**at, axis: place}) for place in range(size))))
        return found

    def own(self, rank: int) -> list[tuple[int, Group]]:
        """The groups that a worker is in, by their place among all."""
        return [(number, group) for number, group in enumerate(self.groups()) if rank in group.ranks]
