"""Augmentation against torch's affine_grid and grid_sample: the same picture, within a grey level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from laminar.data.augment_affine import DRAWS, Affine
from laminar.data.order import counted


def through_torch(x: np.ndarray, affine: Affine, words: np.ndarray) -> np.ndarray:
    count, _, height, width = x.shape
    side, angle, centre = affine.windows(words)
    cos, sin = side * np.cos(np.radians(angle)), side * np.sin(np.radians(angle))
    theta = np.empty((count, 2, 3))  # torch counts every axis from -1 to 1
    theta[:, 0] = np.stack([cos, -sin * height / width, centre[:, 1] * 2 / width - 1], axis=1)
    theta[:, 1] = np.stack([sin * width / height, cos, centre[:, 0] * 2 / height - 1], axis=1)
    grid = functional.affine_grid(torch.from_numpy(theta), list(x.shape), align_corners=False)
    return functional.grid_sample(torch.from_numpy(x).double(), grid, padding_mode="reflection", align_corners=False).numpy()


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 96, 96), (2, 20, 60)])
def test_it_equals_grid_sample_within_a_grey_level(shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, *shape), dtype=np.uint8)
    affine, words = Affine(0.7, 30.0, shape), counted(5, np.arange(40), DRAWS)
    expected = through_torch(x, affine, words)
    off = np.abs(affine(x, words) - expected)
    assert off.mean() < 0.3  # 0.25 is what rounding to bytes costs
    assert off.max() < 2
    assert np.abs(affine(x.astype(np.float32), words) - expected).mean() < 0.15
