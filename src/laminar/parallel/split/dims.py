"""Dimensions: what a tensor's dimensions are made of, and on which mesh axes they lie.

A dimension is a row of atoms, outermost first: a Linear that gives queries, keys and values for 4 heads of 8 numbers has an output
dimension of 96 = (3, 4, 8). A mesh axis splits one atom into contiguous parts, so a view that regroups dimensions only regroups atoms, and
what was split stays split: [batch, 96] with the heads on axis "cols" viewed as [batch, 3, 4, 8] is split in dimension 2; nothing is sent.
No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

ROWS: Final = 1_000_003  # stands for the number of rows of a batch: a prime, so that it is recognised in products
BATCH: Final = "batch"


@dataclass(frozen=True)
class Atom:
    name: str  # what people call it: batch, hidden, channels, height …
    size: int  # of the whole; a multiple of ROWS where it depends on the batch
    axis: str | None = None  # the mesh axis it is split over
    origin: str | None = None  # the dimension it is a piece of, and how many numbers of that are inside each of its steps
    stride: int = 1

    @property
    def of_batch(self) -> bool:
        return self.size % ROWS == 0


Dim = tuple[Atom, ...]
Dims = tuple[Dim, ...]
Mesh = Mapping[str, int]  # axis -> workers along it
At = Mapping[str, int]  # axis -> a worker's place on it


class Tangled(Exception):
    """A view that does not regroup atoms: (6) x (4) seen as (4) x (6)."""


class Indivisible(Exception):
    """A view cuts a split atom where its parts do not end."""

    def __init__(self, atom: Atom) -> None:
        self.atom = atom


def size_of(dim: Dim) -> int:
    return prod(atom.size for atom in dim)


def sizes_of(dims: Dims) -> tuple[int, ...]:
    return tuple(size_of(dim) for dim in dims)


def plain(names: Sequence[str], sizes: Sequence[int]) -> Dims:
    """Dimensions that are not split. Those of size 1 have no atoms: there is nothing in them to split."""
    return tuple((Atom(name, size),) if size != 1 else () for name, size in zip(names, sizes, strict=True))


def axes_of(dims: Dims) -> list[str]:
    return [atom.axis for dim in dims for atom in dim if atom.axis is not None]


def whole(dims: Dims, *axes: str) -> Dims:
    """The same, not split over these axes; without any, over none."""
    return tuple(tuple(replace(a, axis=None) if a.axis is not None and (not axes or a.axis in axes) else a for a in dim) for dim in dims)


def whole_dim(dim: Dim) -> Dim:
    return whole((dim,))[0]


def part_of(size: int, place: int, parts: int) -> range:
    """The indices that a place on an axis has: in order, as evenly as can be."""
    return range(size * place // parts, size * (place + 1) // parts)


def local_size(atom: Atom, at: At, mesh: Mesh, rows: int) -> int:
    size = with_rows(atom.size, rows)
    return size if atom.axis is None else len(part_of(size, at[atom.axis], mesh[atom.axis]))


def local_sizes(dims: Dims, at: At, mesh: Mesh, rows: int) -> tuple[int, ...]:
    return tuple(prod(local_size(atom, at, mesh, rows) for atom in dim) for dim in dims)


def with_rows(size: int, rows: int) -> int:
    """A size for a batch of so many rows; also of rows times rows."""
    factor = 1
    while size and size % ROWS == 0:
        size, factor = size // ROWS, factor * rows
    return size * factor


def shape_of(dim: Dim) -> tuple[tuple[int, str | None], ...]:
    """What decides which numbers a worker has: sizes and axes, neighbours that are not split taken together."""
    found: list[tuple[int, str | None]] = []
    for atom in dim:
        if found and atom.axis is None and found[-1][1] is None:
            found[-1] = (found[-1][0] * atom.size, None)
        else:
            found.append((atom.size, atom.axis))
    return tuple(found)


def alike(one: Dims, other: Dims) -> bool:
    """Does every worker have the same numbers of both?"""
    return [shape_of(dim) for dim in one] == [shape_of(dim) for dim in other]


def cut(atom: Atom, lead: int, mesh: Mesh) -> tuple[Atom, Atom]:
    """An atom as two, the outer of size `lead`, which takes the axis along."""
    if atom.axis is not None and lead % mesh[atom.axis]:
        raise Indivisible(atom)
    rest = atom.size // lead
    return replace(atom, size=lead, stride=atom.stride * rest), replace(atom, size=rest, axis=None)


def regroup(dims: Dims, sizes: Sequence[int], mesh: Mesh) -> Dims:
    """The same atoms in dimensions of other sizes, in the order of memory."""
    queue = [atom for dim in dims for atom in dim]
    queue.reverse()
    found: list[Dim] = []
    for size in sizes:
        dim: list[Atom] = []
        left = size
        while left > 1:
            if not queue:
                raise Tangled
            atom = queue.pop()
            if left % atom.size == 0:
                dim.append(atom)
                left //= atom.size
            elif atom.size % left == 0:
                lead, rest = cut(atom, left, mesh)
                dim.append(lead)
                queue.append(rest)
                left = 1
            else:
                raise Tangled
        found.append(tuple(dim))
    if queue:
        raise Tangled
    return tuple(found)
