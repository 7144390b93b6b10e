"""Cut out and turned: every image is sampled once, bilinearly, through a window that is smaller, elsewhere and turned.

The window keeps the image's proportions. Where a turned window leaves the image it sees the image mirrored, edge pixel first: a black
corner would tell the model how far an image was turned. All arithmetic on places is in whole numbers, on values in whole numbers (bytes)
or in single multiplications and additions (float32), so that every machine and every numpy gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from laminar.data.dataset import Array
from laminar.data.order import uniform

DRAWS = 4  # random words per sample: side, angle, place down, place across
_AT_ONCE = 1 << 15  # pixels: indices and partial sums stay in the processor's cache
_ONE = 1 << 16  # a pixel, in the unit of places
_WIDE = 1 << 12  # pixels: places in larger images need 64 bits


@final
class Affine:
    def __init__(self, crop: float, rotate: float, sample_shape: tuple[int, ...]) -> None:
        self._crop, self._rotate = crop, rotate
        self._height, self._width = sample_shape[1:]
        down, across = _reach(self._height, self._width, rotate), _reach(self._width, self._height, rotate)
        self._down, self._across = down, across
        self._rows, self._columns = _mirrored(self._height, down), _mirrored(self._width, across)
        self._place: np.dtype[Any] = np.dtype(np.int32 if len(self._rows) < _WIDE and len(self._columns) < _WIDE else np.int64)

    def __call__(self, x: Array, words: NDArray[np.uint64]) -> Array:
        """A changed copy of the images `x`, (N, C, H, W); `words` are (N, DRAWS)."""
        out = np.empty(x.shape, dtype=x.dtype)
        some = max(1, _AT_ONCE // (self._height * self._width))
        between = _bytes_between if x.dtype == np.uint8 else _numbers_between
        for start in range(0, len(x), some):
            part = slice(start, start + some)
            at, down, across = self._places(words[part])
            under = at + len(self._columns)
            weights = _weights(down, x.dtype), _weights(across, x.dtype)
            for channel in range(x.shape[1]):
                framed = self._framed(x[part, channel]).reshape(-1)
                between(framed, at, under, *weights, out[part, channel])
        return out

    def windows(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Of every sample: the window's share of the side, its angle in degrees, and its centre (down, across) in pixels."""
        draws = uniform(words)
        side = 1.0 - (1.0 - self._crop) * draws[:, 0]
        angle = self._rotate * (2.0 * draws[:, 1] - 1.0)
        spare = (1.0 - side)[:, None] * np.array([self._height, self._width], dtype=np.float64)
        centre = np.array([self._height, self._width]) / 2 + spare * (draws[:, 2:4] - 0.5)
        return side, angle, centre

    def _places(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], Array, Array]:
        """For every pixel to be made: the upper left of the four pixels around its source, and its place down and across in 1/_ONE."""
        side, angle, centre = self.windows(words)
        cos, sin = _cos_sin(angle)
        # Pixel j has its middle (2j + 1 - width) / 2 from the image's: in half pixels that is whole, and so is every sum below.
        step, slant = _whole(side * cos * (_ONE / 2), self._place), _whole(side * sin * (_ONE / 2), self._place)
        half = np.array([self._down, self._across]) - 0.5  # a pixel's place is that of its middle
        origin = _whole((centre + half) * _ONE, self._place) + self._place.type(_ONE >> 9)  # so that 1/256 is rounded, not cut off
        j = np.arange(1 - self._width, self._width, 2, dtype=self._place)
        i = np.arange(1 - self._height, self._height, 2, dtype=self._place)
        across = (origin[:, 1, None] + step[:, None] * j)[:, None, :] - (slant[:, None] * i)[:, :, None]
        down = (origin[:, 0, None] + step[:, None] * i)[:, :, None] + (slant[:, None] * j)[:, None, :]
        at: NDArray[np.intp] = (down >> 16).astype(np.intp)
        at *= len(self._columns)
        at += across >> 16
        at += (np.arange(len(side), dtype=np.intp) * (len(self._rows) * len(self._columns)))[:, None, None]
        return at, down, across

    def _framed(self, x: Array) -> Array:
        """Images (N, H, W) in a mirrored frame, wide enough for the turned window and the pixel beyond it."""
        left, right = self._across, self._across + self._width
        wide = np.empty((len(x), self._height, len(self._columns)), dtype=np.uint32 if x.dtype == np.uint8 else x.dtype)
        wide[:, :, left:right] = x
        wide[:, :, :left] = x[:, :, self._columns[:left]]
        wide[:, :, right:] = x[:, :, self._columns[right:]]
        if x.dtype == np.uint8:  # with its right neighbour in the upper half: one look finds both
            wide[:, :, :-1] |= wide[:, :, 1:] << np.uint32(16)
        return wide.take(self._rows, axis=1)


Weights = tuple[Array, Array]  # of the pixel before and of the one after, together 1


def _weights(place: Array, kind: np.dtype[Any]) -> Weights:
    """In 1/256: that is finer than a byte can show."""
    after = (place >> 8) & 255
    if kind == np.uint8:
        whole: Array = after.astype(np.uint32)
        return np.uint32(256) - whole, whole
    share: Array = after.astype(kind) * kind.type(1 / 256)
    return kind.type(1) - share, share


def _bytes_between(pairs: Array, at: NDArray[np.intp], under: NDArray[np.intp], down: Weights, across: Weights, out: Array) -> None:
    """Both columns are weighted by row in one multiplication: 255 * 256 fits into half a word."""
    upper, lower = pairs.take(at, mode="clip"), pairs.take(under, mode="clip")
    upper *= down[0]
    lower *= down[1]
    upper += lower
    right = upper >> np.uint32(16)
    upper &= np.uint32(0xFFFF)
    upper *= across[0]
    right *= across[1]
    upper += right
    upper += np.uint32(1 << 15)
    upper >>= np.uint32(16)
    np.copyto(out, upper, casting="unsafe")


def _numbers_between(values: Array, at: NDArray[np.intp], under: NDArray[np.intp], down: Weights, across: Weights, out: Array) -> None:
    """As a + (b - a) * share: what is constant stays exactly that."""
    sides = []
    for column in (values, values[1:]):
        upper, lower = column.take(at, mode="clip"), column.take(under, mode="clip")
        lower -= upper
        lower *= down[1]
        upper += lower
        sides.append(upper)
    left, right = sides
    right -= left
    right *= across[1]
    np.add(left, right, out=out)


def _reach(side: int, other: int, degrees: float) -> int:
    """How many pixels beyond an edge a window may look that is turned by so much at most, and one for rounding."""
    turned = side / 2 + other / 2 * math.sin(math.radians(min(degrees, 90.0)))
    return math.ceil(min(turned, math.hypot(side, other) / 2) - side / 2) + 1


def _mirrored(side: int, reach: int) -> NDArray[np.intp]:
    """Which pixel lies at -reach .. side + reach: 2 1 0 | 0 1 2 … and again, however far."""
    at = np.arange(-reach, side + reach + 1) % (2 * side)
    return np.minimum(at, 2 * side - 1 - at)


def _whole(x: NDArray[np.float64], kind: np.dtype[Any]) -> Array:
    return np.rint(x).astype(kind)


def _cos_sin(degrees: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By power series of a quarter of the angle, then doubled twice: numpy's own depend on the processor in the last bit."""
    t = degrees * (math.pi / 720)
    square = t * t
    cos, sin = np.ones_like(t), np.ones_like(t)
    for n in range(18, 0, -2):  # Horner; at most pi / 4, so the first term left out is below 1e-19
        cos = 1.0 - cos * square / (n * (n - 1.0))
        sin = 1.0 - sin * square / (n * (n + 1.0))
    sin = sin * t
    for _ in range(2):
        cos, sin = cos * cos - sin * sin, 2.0 * cos * sin
    return cos, sin
