"""Cutting: the pixels of fragments, straight from their image; the image itself is never turned.

A fragment (x, y, angle) is the square of `size` pixels whose top left corner is (x, y), turned counter-clockwise by `angle` degrees
about its own centre. It shows what Pillow shows by

    image.rotate(angle, Resampling.BILINEAR, center=(x + size / 2, y + size / 2)).crop((x, y, x + size, y + size))

to within a grey level: weights have eight bits here, and the result is cut off, not rounded, as there. Quarter turns are exact copies,
and a turn by 90 + a is a quarter turn of the turn by a. Where a turned square leaves its image it shows

    edge = "mirror"  the image mirrored, its border pixels repeated: numpy.pad's "symmetric"
    edge = "black"   zero, as in Pillow
    edge = "inside"  nothing: such a fragment is not in the table, and is refused here

The same fragment has the same bytes whatever is cut together with it, and on every machine.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from laminar.data.fragments.turn import Turn, turn_of
from laminar.data.spec import FragmentSpec

Pixels = NDArray[np.uint8]
Numbers = NDArray[np.integer]
_Square = tuple[int, int, int, int]  # x, y, quarter turns, row of `out`

_SCRATCH = 1 << 20  # bytes of windows and sums worked on together, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Prepared:
    image: Pixels  # (C, H, W), contiguous
    size: int
    edge: Literal["mirror", "black", "inside"]

    @property
    def nbytes(self) -> int:
        return self.image.nbytes


def prepare(image: Pixels, spec: FragmentSpec) -> Prepared:
    if image.ndim != 3 or image.dtype != np.uint8 or min(image.shape[1:]) < spec.size:
        raise ValueError(f"{image.dtype} of shape {image.shape}, expected bytes (C, H, W) with H and W of {spec.size} or more")
    return Prepared(np.ascontiguousarray(image), spec.size, spec.edge)


def cut(prepared: Prepared, x: Numbers, y: Numbers, angle: Numbers, out: Pixels, rows: Numbers | None = None) -> None:
    """Write fragments of one image into `out` (n, C, size, size): one after another, or into the `rows` given."""
    size, (channels, height, width) = prepared.size, prepared.image.shape
    if out.shape[1:] != (channels, size, size):
        raise ValueError(f"out has shape {out.shape}, expected (n, {channels}, {size}, {size})")
    to = range(len(x)) if rows is None else rows.tolist()
    alike: dict[int, list[_Square]] = {}  # by degrees beyond a quarter turn
    for at_x, at_y, degrees, row in zip(x.tolist(), y.tolist(), angle.tolist(), to, strict=True):
        if not (0 <= at_x <= width - size and 0 <= at_y <= height - size):
            raise ValueError(f"a fragment at {at_x}, {at_y} leaves its image of {width}x{height}")
        alike.setdefault(degrees % 90, []).append((at_x, at_y, degrees // 90 % 4, row))
    for at_x, at_y, quarters, row in alike.pop(0, ()):
        out[row] = _quarters(prepared.image[:, at_y : at_y + size, at_x : at_x + size], quarters)
    at_once = max(1, _SCRATCH // (12 * channels * size**2))
    for degrees, squares in alike.items():
        turn = turn_of(size, degrees)
        for first in range(0, len(squares), at_once):
            _cut_turned(prepared, turn, squares[first : first + at_once], out)


def _cut_turned(prepared: Prepared, turn: Turn, squares: list[_Square], out: Pixels) -> None:
    image, size, side, count = prepared.image, prepared.size, turn.side, len(squares)
    channels, height, width = image.shape
    if prepared.edge == "inside":
        for x, y, _, _ in squares:
            if min(x, y) + turn.start < 0 or x + turn.start + side > width or y + turn.start + side > height:
                raise ValueError(f"a turned fragment at {x}, {y} leaves its image of {width}x{height}")
    windows = _scratch.empty("windows", np.uint8, (count, channels, side, side))
    for window, (x, y, _, _) in zip(windows, squares, strict=True):
        _fill(window, image, y + turn.start, x + turn.start)
    # A pixel and its right neighbour in one word: two gathers instead of four, and gathering is what takes the time.
    planes, row = count * channels, side - 1
    flat = _scratch.empty("pairs", np.uint16, (planes * side * row + row,))
    pairs = flat[:-row].reshape(count, channels, side, row)
    np.copyto(pairs, windows[..., 1:])
    pairs <<= 8
    pairs |= windows[..., :-1]
    left = _scratch.empty("left", np.uint16, (2, planes, size * size))  # of the upper row, of the lower
    flat[:-row].reshape(planes, -1).take(turn.offsets, 1, left[0], "clip")  # "clip" takes without a copy; the offsets are ours
    flat[row:].reshape(planes, -1).take(turn.offsets, 1, left[1], "clip")
    right = np.right_shift(left, 8, out=_scratch.empty("right", np.uint16, left.shape))
    left &= 255
    left *= turn.left
    right *= turn.right
    left += right
    total = left[0]
    total += left[1]  # of four pixels in parts of 256, so sixteen bits hold it
    total >>= 8
    turned = total.reshape(count, channels, size, size)
    if prepared.edge == "black":
        for one, (x, y, _, _) in zip(turned, squares, strict=True):
            for first, length, near in ((x, width, turn.near_x), (y, height, turn.near_y)):
                if first + turn.start < 0:
                    one *= near >= -first
                if first + turn.start + side > length:
                    one *= near < length - first
    for one, (_, _, quarters, to) in zip(turned, squares, strict=True):
        np.copyto(out[to], _quarters(one, quarters), casting="unsafe")


class _Scratch(threading.local):
    """Memory that a thread uses again: pages that are new with every call would cost more than the sums."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[Any]] = {}

    def empty(self, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size, dtype=dtype)
        return held[:size].reshape(shape)


_scratch = _Scratch()


def _fill(window: Pixels, image: Pixels, top: int, left: int) -> None:
    """A window (C, side, side) of an image, mirrored where it leaves it: by less than a fragment's side, so once is enough."""
    side, (_, height, width) = window.shape[1], image.shape
    above, below, before, after = max(0, -top), max(0, top + side - height), max(0, -left), max(0, left + side - width)
    source = image[:, max(0, top) : min(top + side, height)]
    inner = window[:, above : side - below]
    inner[:, :, before : side - after] = source[:, :, max(0, left) : min(left + side, width)]
    if before:
        inner[:, :, :before] = source[:, :, before - 1 :: -1]
    if after:
        inner[:, :, side - after :] = source[:, :, : width - after - 1 : -1]
    if above:
        window[:, :above] = window[:, above : 2 * above][:, ::-1]
    if below:
        window[:, side - below :] = window[:, side - 2 * below : side - below][:, ::-1]


def _quarters(square: NDArray[np.generic], turns: int) -> NDArray[np.generic]:
    """(C, H, W) turned counter-clockwise by quarters: np.rot90, at a tenth of its price."""
    if turns % 2:
        square = square.swapaxes(1, 2)
    return square[:, :: -1 if turns in (1, 2) else 1, :: -1 if turns in (2, 3) else 1]
