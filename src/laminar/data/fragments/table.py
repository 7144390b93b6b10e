"""The table: every fragment of a set of images has a number, and a number says where its fragment lies. Nothing is listed.

Numbers run by image, then angle, then row, then column:

    number = first[image] + (angle_number * rows + row) * columns + column

With edge = "inside" the places at an angle are fewer, a rectangle of the grid, and each angle's numbers follow those of the angle before.
An image costs twelve bytes, a fragment none; with edge = "inside" an image of a new size costs eight bytes an angle more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laminar.data.fragments.grid import along, angles, reaches, stride
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
        reach = reaches(spec)
        different = list(dict.fromkeys(reach))
        self._reach = np.array([different.index(one) for one in reach], dtype=np.int32)  # of every angle
        grid = [[[along(side, spec, one) for side in kind] for one in different] for kind in kinds]
        self._grid = np.array(grid, dtype=np.int64).reshape(-1, len(different), 2, 2)  # by kind and reach: column, row; first, how many
        places = self._grid[..., 1].prod(axis=2)  # by kind and reach
        self._count = places @ np.bincount(self._reach, minlength=len(different))
        self._ends: Integers | None = None  # by kind: numbers up to the end of each angle; where angles differ, and running on
        if len(different) > 1:
            self._ends = np.cumsum(places[:, self._reach].ravel())
        self._before = np.cumsum(self._count) - self._count  # numbers of the kinds before
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
        rest = index - self.first[image]
        if self._ends is None:
            columns, rows = self._grid[kind, 0, :, 1].T
            angle, rest = np.divmod(rest, columns * rows)
            first_column, first_row = np.zeros(2, dtype=np.int64)
        else:
            rest = rest + self._before[kind]
            place = np.searchsorted(self._ends, rest, side="right")
            rest -= np.where(place > 0, self._ends[place - 1], 0)
            angle = place % len(self._angles)
            grid = self._grid[kind, self._reach[angle]]
            (first_column, columns), (first_row, _) = grid[:, 0].T, grid[:, 1].T
        row, column = np.divmod(rest, columns)
        x, y = (
            np.minimum(i * self._step, side - self.spec.size)
            for i, side in zip((column + first_column, row + first_row), self._size[kind].T, strict=True)
        )
        return Located(image.astype(np.int64), x, y, self._angles[angle])

    def index_of(self, image: ArrayLike, x: ArrayLike, y: ArrayLike, angle: ArrayLike) -> Integers:
        """The numbers of fragments, given as `locate` gives them; anything that is not in the grid is an error."""
        image, x, y, angle = (np.asarray(a, dtype=np.int64) for a in (image, x, y, angle))
        if not np.all((image >= 0) & (image < self.images)):
            raise IndexError(f"image {image} of {self.images}")
        kind = self._kind[image]
        turn = angle // (self.spec.rotate or 360)
        if not np.all((turn >= 0) & (turn < len(self._angles)) & (turn * (self.spec.rotate or 360) == angle)):
            raise ValueError(f"no fragment is turned by {angle} degrees")
        (first_column, columns), (first_row, rows) = np.moveaxis(self._grid[kind, self._reach[turn]], (-2, -1), (0, 1))
        sides = np.moveaxis(self._size[kind], -1, 0)
        column, row = -(-x // self._step), -(-y // self._step)  # rounded up: the last place lies before its multiple
        for what, i, first, count, at, side in (
            ("x", column, first_column, columns, x, sides[0]),
            ("y", row, first_row, rows, y, sides[1]),
        ):
            if not np.all((i >= first) & (i < first + count) & (np.minimum(i * self._step, side - self.spec.size) == at)):
                raise ValueError(f"no fragment begins at {what} = {at}")
        before = turn * rows * columns
        if self._ends is not None:
            flat = kind * len(self._angles) + turn
            before = np.where(flat > 0, self._ends[flat - 1], 0) - self._before[kind]
        return np.asarray(self.first[image] + before + (row - first_row) * columns + column - first_column, dtype=np.int64)
