"""Rules: which dimension of a tensor lies on which axis of the mesh, as the user wrote it (train/splitting.py). No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laminar.core.errors import LaminarError
from laminar.parallel.split.dims import ROWS, Mesh
from laminar.train.splitting import Table


@dataclass(frozen=True)
class Rules:
    mesh: Mesh
    split: Table = field(default_factory=dict)
    modules: Mapping[str, Table] = field(default_factory=dict)  # by module path: instead of `split`, for it and all inside it

    def at(self, path: str) -> Table:
        """The rules for the operators of a module: those of the innermost module that has its own."""
        parts = path.split(".") if path else []
        for end in range(len(parts), 0, -1):
            if (found := self.modules.get(".".join(parts[:end]))) is not None:
                return found
        return self.split


def clash(where: str, axis: str, one: tuple[str, int], other: tuple[str, int], mesh: Mesh) -> LaminarError:
    """Two dimensions of one tensor on one axis."""
    free = [name for name in mesh if name != axis]
    way = f'{other[0]} = "{free[0]}"' if free else f'mesh = {{ {axis} = {mesh[axis]}, other = 2 }} and {other[0]} = "other"'
    return LaminarError(
        "L012",
        f"{where}: its output has {one[0]} (of size {_size(one[1])}) and {other[0]} (of size {_size(other[1])}) both on axis '{axis}', "
        f"which would give each of its {mesh[axis]} workers one corner of the tensor and leave out the rest",
        hint=f"{way}, or leave one of the two out",
    )


def uneven(where: str, name: str, size: int, axis: str, mesh: Mesh) -> LaminarError:
    parts = mesh[axis]
    fits = next((n for n in range(parts, 1, -1) if size % n == 0), None)
    instead = f"{axis} = {fits} in mesh ({size} = {fits} x {size // fits})" if fits else f"{name} of a multiple of {parts}"
    return LaminarError(
        "L012",
        f"{where}: its {name} of size {size} cannot be shared evenly by {parts} workers on axis '{axis}': "
        f"{size} / {parts} = {size / parts:g}",
        hint=f'{instead}, or an exception for the module: [layer.train.strategy.module] "{where.strip(chr(39))}" = {{ }}',
    )


def _size(size: int) -> str:
    return "the batch" if size % ROWS == 0 else str(size)
