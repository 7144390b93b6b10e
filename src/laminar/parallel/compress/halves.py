"""float16 without overflow and with little underflow: values are multiplied by a power of two that puts the largest just below 2^15.

Multiplying by a power of two rounds nothing, so what is left is float16's own rounding: at most 2^-11 of a value, down to 2^-28 of the
largest one, and at most 2^-39 of the largest below that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from laminar.parallel.compress.packet import peak


def encode(values: NDArray[np.float32]) -> tuple[NDArray[Any], float]:
    """float16, and the scale that brings it back."""
    up = factor(peak(values))
    scaled = torch.from_numpy(values * np.float32(up))
    return scaled.half().numpy(), 1 / up  # torch converts ten times as fast as numpy


def decode(coded: NDArray[Any], scale: float) -> NDArray[np.float32]:
    values: NDArray[np.float32] = torch.from_numpy(coded.copy()).float().mul_(scale).numpy()
    return values


def factor(most: float) -> float:
    """What values are multiplied by when the largest magnitude is `most`. The inverse is exact too."""
    exponent = math.frexp(most)[1] if most > 0 else 15  # most < 2^exponent
    return math.ldexp(1.0, 15 - max(exponent, -111))  # float32 has no power of two above 2^127, nor its inverse below 2^-126
