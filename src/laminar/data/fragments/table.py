"""The table: every fragment of a set of images has a number, and a number says where its fragment lies. Nothing is listed.

Numbers run by image, then angle, then row, then column:

    number = first[image] + (angle_number * rows + row) * columns + column

An image costs twelve bytes, a fragment none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laminar.data.fragments.grid import angles, per_image, places, stride
from laminar.data.spec import FragmentSpec

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Located:
    """Where fragments lie: top left corner in pixels of the image, and degrees counter-clockwise about their own centre."""

    image: Integers
    x: Integers
    y: Integers
    angle: Integers

    def __len__(self) -> int:
        return len(self.image)


@final
class FragmentTable:
    def __init__(self, sizes: Sequence[tuple[int, int]], spec: FragmentSpec) -> None:
        """`sizes` are (width, height) of the images, each at least a fragment large."""
        self.spec = spec
        self._step = stride(spec.size, spec.overlap)
        self._angles = np.array(angles(spec.rotate), dtype=np.int64)
        kinds: dict[tuple[int, int], int] = {}
        self._kind = np.array([kinds.setdefault((int(w), int(h)), len(kinds)) for w, h in sizes], dtype=np.int32)  # images of one size
        self._size = np.array(list(kinds), dtype=np.int64).reshape(-1, 2)
        grid = [[places(side, spec.size, self._step) for side in kind] for kind in kinds]
        self._grid = np.array(grid, dtype=np.int64).reshape(-1, 2)  # columns, rows
        self._count = np.array([per_image(*kind, spec) for kind in kinds], dtype=np.int64)
        counts = self._count[self._kind]
        self.first: Integers = np.cumsum(counts) - counts  # number of each image's first fragment
        self._total = int(counts.sum())

    def __len__(self) -> int:
        return self._total

    @property
    def images(self) -> int:
        return len(self._kind)

    def size(self, image: int) -> tuple[int, int]:
        """(width, height)"""
        width, height = self._size[self._kind[image]]
        return int(width), int(height)

    def count(self, image: int) -> int:
        return int(self._count[self._kind[image]])

    def counts(self, images: NDArray[np.integer]) -> Integers:
        counts: Integers = self._count[self._kind[images]]
        return counts

    def locate(self, index: NDArray[np.integer]) -> Located:
        index = np.asarray(index, dtype=np.int64)
        if len(index) and not (index.min() >= 0 and index.max() < self._total):
            raise IndexError(f"fragments {index.min()}..{index.max()} of {self._total}")
        image = np.searchsorted(self.first, index, side="right") - 1
        kind = self._kind[image]
        columns, rows = self._grid[kind].T
        rest, column = np.divmod(index - self.first[image], columns)
        angle, row = np.divmod(rest, rows)
        x, y = (np.minimum(i * self._step, side - self.spec.size) for i, side in zip((column, row), self._size[kind].T, strict=True))
        return Located(image.astype(np.int64), x, y, self._angles[angle])

    def index_of(self, image: ArrayLike, x: ArrayLike, y: ArrayLike, angle: ArrayLike) -> Integers:
        """The numbers of fragments, given as `locate` gives them; anything that is not in the grid is an error."""
        image, x, y, angle = (np.asarray(a, dtype=np.int64) for a in (image, x, y, angle))
        if not np.all((image >= 0) & (image < self.images)):
            raise IndexError(f"image {image} of {self.images}")
        kind = self._kind[image]
        (columns, rows), sides = np.moveaxis(self._grid[kind], -1, 0), np.moveaxis(self._size[kind], -1, 0)
        column, row = -(-x // self._step), -(-y // self._step)  # rounded up: the last place lies before its multiple
        turn = angle // (self.spec.rotate or 360)
        for what, i, count, at, side in (("x", column, columns, x, sides[0]), ("y", row, rows, y, sides[1])):
            if not np.all((i >= 0) & (i < count) & (np.minimum(i * self._step, side - self.spec.size) == at)):
                raise ValueError(f"no fragment begins at {what} = {at}")
        if not np.all((turn >= 0) & (turn < len(self._angles)) & (turn * (self.spec.rotate or 360) == angle)):
            raise ValueError(f"no fragment is turned by {angle} degrees")
        return np.asarray(self.first[image] + (turn * rows + row) * columns + column, dtype=np.int64)
