"""A turn: which pixels a turned square is mixed from, and in what parts, as integers.

A square at whole pixels (x, y), turned by some degrees about its own centre, reads the same pixels relative to (x, y) wherever it
lies. So offsets and weights are worked out once an angle. All arithmetic is on integers, from a cosine of thirty bits on: the same
square is cut on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laminar.data.fragments.kept import Kept
from laminar.data.fragments.reach import ONE, cosine_and_sine, reach_of


@dataclass(frozen=True, slots=True)
class Turn:
    """How a square of `size` pixels, turned by more than 0 and less than 90 degrees, is read from a square window around it."""

    start: int  # the window's first row and column, relative to the square's
    side: int  # of the window
    offsets: NDArray[np.intp]  # (size*size,) of the upper left pixel of four, in a window whose rows are side - 1 long
    left: NDArray[np.uint16]  # (2, 1, size*size) weights of the upper and lower left pixel
    right: NDArray[np.uint16]  # and of those on the right; 256 all four together
    near_x: NDArray[np.int32]  # (size, size) column of the pixel in which a sample falls, relative to the square's
    near_y: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.offsets, self.left, self.right, self.near_x, self.near_y))


_turns: Kept[tuple[int, int], Turn] = Kept(64 << 20)  # (size, degrees); 24 bytes a pixel


def turn_of(size: int, degrees: int) -> Turn:
    turn = _turns.get((size, degrees))
    if turn is None:
        turn = _make(size, degrees)
        _turns.put((size, degrees), turn)
    return turn


def _make(size: int, degrees: int) -> Turn:
    if not 0 < degrees < 90:
        raise ValueError(f"{degrees} degrees; quarter turns are copies")
    cosine, sine = cosine_and_sine(degrees)
    from_centre = 2 * np.arange(size, dtype=np.int64) + 1 - size  # of pixel centres, in half pixels
    across, down = from_centre[None, :], from_centre[:, None]
    # Counter-clockwise as seen, y pointing down; now in units of 2^-31 pixels from the square's corner.
    x = cosine * across - sine * down + size * ONE
    y = sine * across + cosine * down + size * ONE
    column, right = _neighbours(x)
    row, below = _neighbours(y)
    both = (right * below + 128) >> 8
    lefts, rights = (
        np.stack(pair).reshape(2, 1, -1).astype(np.uint16) for pair in ((256 - right - below + both, below - both), (right - both, both))
    )
    start, side = reach_of(size, degrees)
    offsets = ((row - start) * (side - 1) + column - start).ravel().astype(np.intp)
    return Turn(start, side, offsets, lefts, rights, (x >> 31).astype(np.int32), (y >> 31).astype(np.int32))


def _neighbours(position: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pixel whose centre lies at or before a position, and how far beyond it is, in 256ths."""
    in_256ths = (position - ONE + (1 << 22)) >> 23  # a pixel's centre is half a pixel, ONE, after its corner
    return in_256ths >> 8, in_256ths & 255
