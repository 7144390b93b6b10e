"""Data sets: two splits of contiguous samples, and the names of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from laminar.data.room import Room

Array = NDArray[Any]


@dataclass(frozen=True)
class Split:
    x: Array  # uint8 or float32, (N, C, H, W) or (N, D)
    y: Array  # int64 (N,), or float32 (N, K) for regression

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: NDArray[np.intp], room: Room | None = None) -> Split:
        """The samples at `index`, in that order; copied into `room`."""
        return Split(self.x[index] if room is None else room.take(self.x, index), self.y[index])


@dataclass(frozen=True)
class Opened:
    """What a source gives: its samples in their own order, and a test set if it has one of its own."""

    train: Split
    test: Split | None
    classes: tuple[str, ...] | None  # None: regression


@dataclass(frozen=True)
class Dataset:
    train: Split
    test: Split
    classes: tuple[str, ...] | None  # None: regression

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @property
    def scale(self) -> float:
        """Samples are divided by this on their way into a model."""
        return 255.0 if self.train.x.dtype == np.uint8 else 1.0

    @property
    def task(self) -> Literal["classification", "regression"]:
        return "regression" if self.classes is None else "classification"


def as_float(x: Array, out: Array | None = None) -> Array:
    """Samples as a model sees them: bytes divided by 255, in float32. The one place where this is decided.

    A division, not a product with 1/255: it is correctly rounded, so every machine and every library gives the same bits.
    """
    if x.dtype == np.uint8:
        return np.divide(x, np.float32(255), out=out, dtype=np.float32)
    if out is None:
        return x.astype(np.float32, copy=False)
    np.copyto(out, x, casting="same_kind")
    return out
