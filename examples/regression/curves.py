"""Data by a function: a curve, sampled at random places. Real-valued targets make it a regression."""

import numpy as np
from numpy.typing import NDArray


def make(frequency: float, count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 1)).astype(np.float32)
    return x, np.sin(np.float32(np.pi * frequency) * x)
