"""Augmentation: flips, shifts and noise, drawn per sample and epoch, so that neither batch nor block nor order matters."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.core.seeds import derive
from laminar.data.dataset import Array
from laminar.data.order import counted
from laminar.data.spec import AugmentSpec

_POOL = 1 << 20


@final
class Augment:
    """`move` changes samples as they are stored, `disturb` as a model sees them."""

    def __init__(self, spec: AugmentSpec, seed: int, sample_shape: tuple[int, ...], *, clip: bool) -> None:
        moves = spec.flip != "none" or spec.shift > 0
        if moves and len(sample_shape) != 3:
            raise LaminarError(
                "L109",
                f"augment: flip and shift need images (C, H, W), but samples have shape {sample_shape}",
                hint="remove flip and shift; noise works for any shape",
            )
        if spec.shift and spec.shift >= min(sample_shape[1:]):
            raise LaminarError(
                "L109",
                f"augment.shift: {spec.shift} pixels, but images are {sample_shape[2]}x{sample_shape[1]}",
                hint="use a smaller shift",
            )
        self._spec, self._seed, self._clip = spec, seed, clip
        self.moves, self.disturbs = moves, spec.noise > 0
        self._width = int(np.prod(sample_shape))
        # Noise is cut from one pool at a random place for each sample: a fifth of the price of drawing every number.
        self._pool = np.empty(0, dtype=np.float32)
        if self.disturbs:
            generator = np.random.Generator(np.random.PCG64(derive(seed, "noise pool")))
            self._pool = generator.standard_normal(max(_POOL, 4 * self._width), dtype=np.float32)

    def stream(self, epoch: int) -> int:
        return derive(self._seed, "augment", epoch)

    def move(self, x: Array, index: NDArray[np.intp], stream: int) -> Array:
        """`x` flipped and shifted; `index` are the samples' places in the data set. What is shifted in is zero."""
        words = counted(stream, index, 4)
        spec = self._spec
        if spec.shift:
            span = np.uint64(2 * spec.shift + 1)
            dy, dx = ((words[:, i] >> np.uint64(32)) % span for i in (0, 1))
            padded = np.pad(x, ((0, 0), (0, 0), (spec.shift, spec.shift), (spec.shift, spec.shift)))
            windows = sliding_window_view(padded, x.shape[2:], axis=(2, 3))
            x = windows[np.arange(len(x)), :, dy.astype(np.intp), dx.astype(np.intp)]
        for axis, name, word in ((3, "horizontal", 2), (2, "vertical", 3)):
            if spec.flip in (name, "both"):
                turned = np.flatnonzero(words[:, word] >> np.uint64(63))
                x[turned] = np.flip(x[turned], axis=axis)
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
