"""The grid: where the fragments of an image lie.

Along an axis of `length` pixels, with fragments of `size` pixels and an `overlap` of neighbours (a share of the side):

    stride = max(1, size * (1 - overlap) rounded to a whole number, halves up)

    last = "move"  n = ceil((length - size) / stride) + 1    places 0, stride, 2 * stride, ..., the last one moved back to length - size
    last = "drop"  n = floor((length - size) / stride) + 1   places 0, stride, 2 * stride, ...

With "move" every pixel is in a fragment; with either, no fragment leaves the image. Both axes alike; at each place one fragment per
angle, 0, rotate, 2 * rotate, ... below 360 degrees. An image of 2272x1704 at 224 pixels and an overlap of 0.5 has 20 x 15 = 300
fragments an angle; with rotate = 5, 72 times as many.

    edge = "inside"  of these only the fragments whose turned square reads no pixel beyond the image; at each angle they are a rectangle
                     of the grid
"""

from __future__ import annotations

import functools
from collections import Counter
from fractions import Fraction
from typing import Literal

from laminar.data.fragments.reach import Reach, reach_of
from laminar.data.spec import FragmentSpec

Last = Literal["move", "drop"]


@functools.lru_cache(maxsize=64)  # a set may have images of ten thousand sizes
def stride(size: int, overlap: float) -> int:
    """The overlap counts as it is written: 15 * (1 - 0.9) is 1.5 and becomes 2, though binary fractions fall just below it."""
    return max(1, int(size * (1 - Fraction(str(overlap))) + Fraction(1, 2)))


def places(length: int, size: int, step: int, last: Last = "move") -> int:
    """How many fragments lie along an axis, `step` pixels apart. An image smaller than a fragment is for the caller to refuse."""
    if length < size:
        raise ValueError(f"fragments of {size} pixels do not fit into {length}")
    return (-(-(length - size) // step) if last == "move" else (length - size) // step) + 1


def positions(length: int, size: int, overlap: float, last: Last = "move") -> tuple[int, ...]:
    """The first pixel of every fragment along an axis."""
    step = stride(size, overlap)
    return tuple(min(i * step, length - size) for i in range(places(length, size, step, last)))


def angles(rotate: int) -> tuple[int, ...]:
    """Degrees, counter-clockwise."""
    return tuple(range(0, 360, rotate)) if rotate else (0,)


def reaches(spec: FragmentSpec) -> list[Reach]:
    """Which pixels around its place a fragment must find in the image, angle by angle."""
    if spec.edge != "inside":
        return [Reach(0, spec.size)] * len(angles(spec.rotate))
    return [reach_of(spec.size, degrees) for degrees in angles(spec.rotate)]


def along(length: int, spec: FragmentSpec, reach: Reach) -> tuple[int, int]:
    """The number of the first place along an axis at which a fragment with this reach lies in the image, and how many such places are."""
    step = stride(spec.size, spec.overlap)
    count = places(length, spec.size, step, spec.last)
    if reach == (0, spec.size):
        return 0, count
    first = -(reach.start // step)  # start is below 0: rounded up
    return first, max(0, (length - reach.start - reach.side) // step - first + 1)  # a place that was moved back has no room beyond it


def per_image(width: int, height: int, spec: FragmentSpec) -> int:
    return sum(many * along(width, spec, reach)[1] * along(height, spec, reach)[1] for reach, many in Counter(reaches(spec)).items())


def way_of_counting(width: int, height: int, spec: FragmentSpec) -> str:
    """How `per_image` comes about: `16 x 12 = 192 places, at each of 72 angles`."""
    upright = Reach(0, spec.size)
    columns, rows = (along(length, spec, upright)[1] for length in (width, height))
    at_angles = len(angles(spec.rotate))
    text = f"{columns} x {rows} = {columns * rows:,} places"
    if at_angles == 1:
        return text
    if spec.edge != "inside":
        return f"{text} at each of {at_angles} angles"
    return f"{text} at {at_angles} angles, less the turned squares that leave the image"
