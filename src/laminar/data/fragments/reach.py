"""The reach of a turned square: which rows and columns around its place its pixels are mixed from. Whole numbers, and no arrays."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

ONE: Final = 1 << 30  # 1.0 of a cosine. No cosine of a whole degree lies so near a half of 2^-30 that libraries could round it apart


class Reach(NamedTuple):
    start: int  # the first row and column that are read, relative to the square's own
    side: int  # how many are


def cosine_and_sine(degrees: int) -> tuple[int, int]:
    """In units of 1 / ONE."""
    return round(math.cos(math.radians(degrees)) * ONE), round(math.sin(math.radians(degrees)) * ONE)


def in_256ths(position: int) -> int:
    """A position in units of 2^-31 pixels from the square's corner, counted from the centre of its first pixel."""
    return (position - ONE + (1 << 22)) >> 23  # a pixel's centre is half a pixel, ONE, after its corner


def reach_of(size: int, degrees: int) -> Reach:
    """Of a square of `size` pixels that is turned about its own centre. It is the same along both axes.

    A sample is mixed from the pixel at or before it and the one after that, so the square reads one pixel beyond the last sample's; by a
    quarter turn it only copies its own.
    """
    if degrees % 90 == 0:
        return Reach(0, size)
    cosine, sine = cosine_and_sine(degrees % 90)
    corner = (cosine + sine) * (size - 1)  # of the outermost samples, from the centre
    start = in_256ths(size * ONE - corner) >> 8
    return Reach(start, (in_256ths(size * ONE + corner) >> 8) + 2 - start)
