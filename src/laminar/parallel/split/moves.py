"""Moves: what brings a value from the layout it has to the one that is needed, and what that sends."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from laminar.parallel.split.collectives import Part
from laminar.parallel.split.dims import At, Atom, Dims, Mesh, local_size, shape_of, with_rows


@dataclass(frozen=True)
class Move:
    kind: Literal["gather", "take"]
    axis: str
    dim: int
    at: int  # the atom, in the row of that dimension's pieces
    before: Dims  # the layout in which it happens
    where: int  # the atom's place among those of that dimension


def moves(have: Dims, need: Dims) -> list[Move]:
    """Together what must not be split, then apart what must be. Nothing where both are alike."""
    found: list[Move] = []
    now = [[Atom("", size, axis) for size, axis in shape_of(dim)] for dim in have]
    for d, (mine, wanted) in enumerate(zip(have, need, strict=True)):
        if shape_of(mine) == shape_of(wanted):
            continue
        keep = _splits(now[d]) & _splits([Atom("", size, axis) for size, axis in shape_of(wanted)])
        for where, (key, atom) in enumerate(_keyed(now[d])):
            if atom.axis is not None and key not in keep:
                found.append(Move("gather", atom.axis, d, where, _frozen(now), where))
                now[d][where] = Atom("", atom.size)
    for d, wanted in enumerate(need):
        goal = [Atom("", size, axis) for size, axis in shape_of(wanted)]
        if shape_of(_frozen(now)[d]) == shape_of(wanted):
            continue
        missing = _splits(goal) - _splits(now[d])
        pieces = [atom if key not in missing else Atom("", atom.size) for key, atom in _keyed(goal)]
        for where, (key, atom) in enumerate(_keyed(goal)):
            if key in missing:
                now[d] = list(pieces)
                assert atom.axis is not None
                found.append(Move("take", atom.axis, d, where, _frozen(now), where))
                pieces[where] = atom
        now[d] = list(pieces)
    return found


def part(move: Move, at: At, mesh: Mesh, rows: int) -> Part:
    """Where the atom of a move lies, for one worker and a batch of so many rows."""
    local = [[local_size(atom, at, mesh, rows) for atom in dim] for dim in move.before]
    atom = move.before[move.dim][move.where]
    outer, inner = prod(local[move.dim][: move.where]), prod(local[move.dim][move.where + 1 :])
    before = prod(prod(sizes) for sizes in local[: move.dim]) * outer
    behind = inner * prod(prod(sizes) for sizes in local[move.dim + 1 :])
    return Part(before, with_rows(atom.size, rows), behind, move.dim, outer, inner)


def _keyed(atoms: list[Atom]) -> list[tuple[tuple[int, int, str | None], Atom]]:
    """Atoms with what tells a split from others: the numbers outside it, its size, its axis."""
    found, outer = [], 1
    for atom in atoms:
        found.append(((outer, atom.size, atom.axis), atom))
        outer *= atom.size
    return found


def _splits(atoms: list[Atom]) -> set[tuple[int, int, str | None]]:
    return {key for key, atom in _keyed(atoms) if atom.axis is not None}


def _frozen(now: list[list[Atom]]) -> Dims:
    return tuple(tuple(dim) for dim in now)
