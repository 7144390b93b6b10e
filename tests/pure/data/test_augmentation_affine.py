"""Cut out and turned: against the formula written out plainly, exactly where it is exact, and spread as it should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.data import augment_affine
from laminar.data.augment_affine import DRAWS, Affine, _cos_sin
from laminar.data.order import counted

NOTHING_DRAWN = np.zeros((1, DRAWS), dtype=np.uint64)  # the whole image, turned by all of `rotate` to one side


def words(count: int, seed: int = 1) -> np.ndarray:
    return counted(seed, np.arange(count), DRAWS)


def images(count: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def plainly(x: np.ndarray, affine: Affine, drawn: np.ndarray) -> np.ndarray:
    """Pixel by pixel, in float64, every pixel beyond the edge looked up in the mirror."""
    count, channels, height, width = x.shape
    out = np.empty(x.shape)
    side, angle, centre = affine.windows(drawn)

    def pixel(n: int, c: int, i: int, j: int) -> float:
        i, j = i % (2 * height), j % (2 * width)
        return float(x[n, c, min(i, 2 * height - 1 - i), min(j, 2 * width - 1 - j)])

    for n in range(count):
        cos, sin = side[n] * math.cos(math.radians(angle[n])), side[n] * math.sin(math.radians(angle[n]))
        for i in range(height):
            for j in range(width):
                v, u = i + 0.5 - height / 2, j + 0.5 - width / 2
                y, x_ = centre[n, 0] + sin * u + cos * v - 0.5, centre[n, 1] + cos * u - sin * v - 0.5
                top, left = math.floor(y), math.floor(x_)
                fy, fx = y - top, x_ - left
                for c in range(channels):
                    out[n, c, i, j] = (1 - fy) * ((1 - fx) * pixel(n, c, top, left) + fx * pixel(n, c, top, left + 1)) + fy * (
                        (1 - fx) * pixel(n, c, top + 1, left) + fx * pixel(n, c, top + 1, left + 1)
                    )
    return out


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 12), st.integers(1, 12)),
    crop=st.sampled_from([1.0, 0.8, 0.3, 0.01]),
    rotate=st.sampled_from([0.0, 5.0, 45.0, 90.0, 130.0, 180.0]),
    seed=st.integers(0, 99),
)
def test_it_is_one_bilinear_sampling_of_the_mirrored_image(shape: tuple[int, int, int], crop: float, rotate: float, seed: int) -> None:
    x, affine, drawn = images(3, shape, seed), Affine(crop, rotate, shape), words(3, seed)
    expected = plainly(x, affine, drawn)
    off = np.abs(affine(x, drawn) - expected)
    assert off.max() <= 2  # of 255; neighbours may be 255 apart, and a place is rounded to 1/256 each way
    assert off.mean() < 0.5
    real = affine(x.astype(np.float32), drawn)
    assert np.abs(real - expected).max() <= 1.5


@pytest.mark.parametrize("shape", [(1, 2, 31), (2, 31, 2), (1, 1, 9)])
def test_a_long_image_is_mirrored_again_and_again(shape: tuple[int, int, int]) -> None:
    x, affine = images(4, shape), Affine(1.0, 180.0, shape)
    assert np.abs(affine(x, words(4)) - plainly(x, affine, words(4))).max() <= 2


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_half_and_quarter_turns_are_exact(kind: type) -> None:
    x = images(1, (3, 8, 8)).astype(kind)
    assert (Affine(1.0, 180.0, (3, 8, 8))(x, NOTHING_DRAWN) == x[:, :, ::-1, ::-1]).all()
    quarter = Affine(1.0, 90.0, (3, 8, 8))(x, NOTHING_DRAWN)
    assert any((quarter == np.rot90(x, k, axes=(2, 3))).all() for k in (1, 3))
    odd = images(1, (1, 5, 9)).astype(kind)
    assert (Affine(1.0, 180.0, (1, 5, 9))(odd, NOTHING_DRAWN) == odd[:, :, ::-1, ::-1]).all()
    assert (Affine(0.5, 0.0, (1, 5, 9))(odd, NOTHING_DRAWN) == odd).all()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_what_is_constant_stays_so_and_nothing_leaves_the_range(kind: type) -> None:
    affine, drawn = Affine(0.4, 180.0, (1, 9, 9)), words(60)
    for level in (0, 1, 77, 254, 255):
        flat = np.full((60, 1, 9, 9), level, dtype=kind)
        flat = flat / kind(3) if kind is np.float32 else flat
        assert (affine(flat, drawn) == flat).all()
    x = (images(60, (1, 9, 9)) // 2 + 50).astype(kind)
    now = affine(x, drawn)
    assert x.min() <= now.min()
    assert now.max() <= x.max()


def test_all_channels_go_through_one_window() -> None:
    x = images(30, (1, 9, 9))
    now = Affine(0.5, 90.0, (3, 9, 9))(np.concatenate([x, 255 - x, x], axis=1), words(30))
    assert (now[:, 0] == now[:, 2]).all()
    assert np.abs(now[:, 0].astype(int) + now[:, 1] - 255).max() <= 1


def test_wide_images_need_wider_numbers_and_get_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x, drawn = images(20, (2, 7, 8)), words(20)
    narrow = Affine(0.5, 90.0, (2, 7, 8))(x, drawn)
    monkeypatch.setattr(augment_affine, "_WIDE", 0)
    assert (Affine(0.5, 90.0, (2, 7, 8))(x, drawn) == narrow).all()


def test_windows_are_spread_evenly_and_lie_inside() -> None:
    side, angle, centre = Affine(0.6, 20.0, (1, 30, 50)).windows(words(20_000))
    for values, low, high in ((side, 0.6, 1.0), (angle, -20.0, 20.0)):
        share = np.histogram(values, bins=8, range=(low, high))[0] / len(values)
        assert abs(share - 1 / 8).max() < 0.01
        assert low <= values.min() <= values.max() <= high
    for axis, length in ((0, 30), (1, 50)):
        low, high = centre[:, axis] - side * length / 2, centre[:, axis] + side * length / 2
        assert low.min() >= -1e-9
        assert high.max() <= length + 1e-9
        spare = (length * (1 - side))[side < 0.9]
        where = low[side < 0.9] / spare
        assert abs(np.histogram(where, bins=8, range=(0, 1))[0] / len(where) - 1 / 8).max() < 0.015
    assert abs(np.corrcoef(np.stack([side, angle, *centre.T]))[np.triu_indices(4, 1)]).max() < 0.03


def test_sines_are_sines() -> None:
    angles = np.linspace(-180, 180, 2001)
    cos, sin = _cos_sin(angles)
    assert abs(cos - np.cos(np.radians(angles))).max() < 1e-14
    assert abs(sin - np.sin(np.radians(angles))).max() < 1e-14
