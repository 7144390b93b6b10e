"""Parts of tensors and whole ones: what a worker keeps of the model's tensors, and how a checkpoint gets all of them back together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from torch import Tensor

from laminar.parallel.split.collectives import _gathered, _taken
from laminar.parallel.split.dims import Dims, axes_of, local_sizes, sizes_of, whole
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.moves import moves, part


@final
class Parts:
    """By the layouts of the model's own tensors. Sizes of these do not depend on the batch."""

    def __init__(self, layouts: Mapping[str, Dims], here: Here) -> None:
        self._layouts, self._here = layouts, here

    def splits(self, name: str) -> bool:
        return bool(self.axes(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the whole tensor, where it is split."""
        return sizes_of(self._layouts[name])

    def own_shape(self, name: str) -> tuple[int, ...]:
        """Of the part that this worker keeps, where it is split."""
        return local_sizes(self._layouts[name], self._here.at, self._here.mesh, 0)

    def own(self, name: str, tensor: Tensor) -> Tensor:
        """The part of a whole tensor that this worker keeps."""
        layout = self._layouts.get(name)
        if layout is None or not axes_of(layout):
            return tensor
        for move in moves(whole(layout), layout):
            tensor = _taken(tensor, part(move, self._here.at, self._here.mesh, 0), self._here.lines[move.axis])
        return tensor

    def whole(self, name: str, tensor: Tensor) -> Tensor:
        """The whole tensor; all workers ask for the same ones in the same order."""
        layout = self._layouts.get(name)
        if layout is None or not axes_of(layout):
            return tensor
        for move in moves(layout, whole(layout)):
            tensor = _gathered(tensor.contiguous(), part(move, self._here.at, self._here.mesh, 0), self._here.lines[move.axis])
        return tensor

    def axes(self, name: str) -> list[str]:
        """Over which it is split."""
        return axes_of(self._layouts.get(name, ()))

    def copies(self, name: str) -> int:
        """How many workers have the same part."""
        found = 1
        for axis, size in self._here.mesh.items():
            if axis not in self.axes(name):
                found *= size
        return found
