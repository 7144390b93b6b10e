"""The grid: where the fragments of an image lie.

Along an axis of `length` pixels, with fragments of `size` pixels and an `overlap` of neighbours (a share of the side):

    stride = max(1, size * (1 - overlap) rounded to a whole number, halves up)
    n      = ceil((length - size) / stride) + 1
    places   0, stride, 2 * stride, ..., the last one moved back to length - size

So every pixel is in a fragment, and no fragment leaves the image. Both axes alike; at each place one fragment per angle,
0, rotate, 2 * rotate, ... below 360 degrees. An image of 2272x1704 at 224 pixels and an overlap of 0.5 has 20 x 15 = 300 fragments
an angle; with rotate = 5, 72 times as many.
"""

from __future__ import annotations

from fractions import Fraction

from laminar.data.spec import FragmentSpec


def stride(size: int, overlap: float) -> int:
    """The overlap counts as it is written: 15 * (1 - 0.9) is 1.5 and becomes 2, though binary fractions fall just below it."""
    return max(1, int(size * (1 - Fraction(str(overlap))) + Fraction(1, 2)))


def places(length: int, size: int, step: int) -> int:
    """How many fragments lie along an axis, `step` pixels apart. An image smaller than a fragment is for the caller to refuse."""
    if length < size:
        raise ValueError(f"fragments of {size} pixels do not fit into {length}")
    return -(-(length - size) // step) + 1


def positions(length: int, size: int, overlap: float) -> tuple[int, ...]:
    """The first pixel of every fragment along an axis."""
    step = stride(size, overlap)
    return tuple(min(i * step, length - size) for i in range(places(length, size, step)))


def angles(rotate: int) -> tuple[int, ...]:
    """Degrees, counter-clockwise."""
    return tuple(range(0, 360, rotate)) if rotate else (0,)


def per_image(width: int, height: int, spec: FragmentSpec) -> int:
    step = stride(spec.size, spec.overlap)
    return places(width, spec.size, step) * places(height, spec.size, step) * len(angles(spec.rotate))
