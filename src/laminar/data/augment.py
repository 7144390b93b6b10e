"""Augmentation: drawn per sample and epoch, so that neither batch nor block nor order nor the number of workers matters.

In this order: cut out and turned (augment_affine.py), shifted, flipped, a square blackened, noise added.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.data import augment_affine
from laminar.data.augment_affine import Affine
from laminar.data.augment_fit import moving, refuse_unfit, sides_of
from laminar.data.dataset import Array
from laminar.data.order import counted
from laminar.data.spec import AugmentSpec

_POOL = 1 << 20
# Which of a sample's random words are for what. Never moved: a run that was broken off goes on with the same ones.
_SHIFT, _FLIP, _AFFINE, _CUTOUT = slice(0, 2), slice(2, 4), slice(4, 4 + augment_affine.DRAWS), slice(8, 10)


@final
class Augment:
    """`move` changes samples as they are stored, `disturb` as a model sees them."""

    def __init__(self, spec: AugmentSpec, seed: int, sample_shape: tuple[int, ...], *, clip: bool) -> None:
        refuse_unfit(spec, sides_of(sample_shape))
        self._spec, self._seed, self._clip = spec, seed, clip
        self.moves, self.disturbs = bool(moving(spec)), spec.noise > 0
        self._affine = Affine(spec.crop, spec.rotate, sample_shape) if spec.crop < 1 or spec.rotate else None
        self._width = int(np.prod(sample_shape))
        # Noise is cut from one pool at a random place for each sample: a fifth of the price of drawing every number.
        self._pool = np.empty(0, dtype=np.float32)
        if self.disturbs:
            generator = np.random.Generator(np.random.PCG64(derive(seed, "noise pool")))
            self._pool = generator.standard_normal(max(_POOL, 4 * self._width), dtype=np.float32)

    def stream(self, epoch: int) -> int:
        return derive(self._seed, "augment", epoch)

    def move(self, x: Array, index: NDArray[np.intp], stream: int) -> Array:
        """`x` with all but noise, perhaps in the same memory; `index` are the samples' places in the data set.

        What is shifted in is zero, and so is the square.
        """
        spec, words = self._spec, counted(stream, index, _CUTOUT.stop)
        if self._affine:
            x = self._affine(x, words[:, _AFFINE])
        if spec.shift:
            x = _shifted(x, spec.shift, words[:, _SHIFT])
        for axis, name, word in ((3, "horizontal", 0), (2, "vertical", 1)):
            if spec.flip in (name, "both"):
                turned = np.flatnonzero(words[:, _FLIP][:, word] >> np.uint64(63))
                x[turned] = np.flip(x[turned], axis=axis)
        if spec.cutout:
            _cut_out(x, spec.cutout, words[:, _CUTOUT])
        return x

    def disturb(self, x: Array, index: NDArray[np.intp], stream: int) -> None:
        """Add noise in place. Bytes stay within 0..1, as no real image leaves it."""
        words = counted(derive(stream, "noise"), index, 1)[:, 0]
        places = ((words >> np.uint64(1)) % np.uint64(len(self._pool) - self._width + 1)).astype(np.intp)
        noise = sliding_window_view(self._pool, self._width)[places]
        noise *= np.where(words & np.uint64(1), np.float32(self._spec.noise), np.float32(-self._spec.noise))[:, None]
        x += noise.reshape(x.shape)
        if self._clip:
            np.clip(x, 0, 1, out=x)


def _below(words: NDArray[np.uint64], bound: int) -> NDArray[np.intp]:
    return ((words >> np.uint64(32)) % np.uint64(bound)).astype(np.intp)


def _shifted(x: Array, most: int, words: NDArray[np.uint64]) -> Array:
    dy, dx = _below(words, 2 * most + 1).T
    padded = np.pad(x, ((0, 0), (0, 0), (most, most), (most, most)))
    windows = sliding_window_view(padded, x.shape[2:], axis=(2, 3))
    moved: Array = windows[np.arange(len(x)), :, dy, dx]
    return moved


def _cut_out(x: Array, side: int, words: NDArray[np.uint64]) -> None:
    """A square of zeros, its middle on any pixel, so that at an edge less is hidden.

    (T. DeVries, G. Taylor: Improved regularization of convolutional neural networks with cutout, 2017.)
    """
    down, across = (_below(words[:, i], x.shape[2 + i]) - side // 2 for i in (0, 1))
    for image, top, left in zip(x, down.tolist(), across.tolist(), strict=True):
        image[:, max(top, 0) : top + side, max(left, 0) : left + side] = 0
