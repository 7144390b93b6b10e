"""Glyphs: the same bytes everywhere, more of them only at the end."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from laminar.data.drawing.draw import draw
from laminar.data.drawing.font import DOMAINS, strokes
from laminar.data.sources.protocol import silent


def pictures(domain: str = "digits", count: int = 60, size: int = 12, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    return draw(domain, count, size=size, noise=noise, seed=seed, progress=silent)[0]


@pytest.mark.parametrize("domain", DOMAINS)
def test_known_pictures_stay_as_they_are(domain: str) -> None:
    """Golden: another drawing must raise DRAWING in sources/glyphs.py, for it is what the fingerprint stands for."""
    assert hashlib.sha256(pictures(domain).tobytes()).hexdigest()[:16] == GOLDEN[domain]


GOLDEN = {"digits": "2456b768e474245d", "letters": "e7c0fd17530fce5a", "shapes": "ee575a949f9b5f2b"}


def test_a_larger_count_only_adds() -> None:
    assert (pictures(count=100)[:60] == pictures(count=60)).all()


def test_pictures_differ_by_seed_and_from_each_other() -> None:
    assert not (pictures(seed=0) == pictures(seed=1)).all(axis=(1, 2, 3)).any()
    assert len({p.tobytes() for p in pictures(noise=0.0)}) == 60


def test_noise_has_the_deviation_asked_for() -> None:
    plain, noisy = (pictures(count=200, size=16, noise=n).astype(float) for n in (0.0, 0.05))
    inside = (plain > 60) & (plain < 195)  # where nothing is clipped
    assert abs((noisy - plain)[inside].std() / 255 - 0.05) < 0.003


@pytest.mark.parametrize("size", [8, 33])
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_glyph_is_inside_and_visible(domain: str, size: int) -> None:
    x = pictures(domain, count=5 * len(DOMAINS[domain]), size=size, noise=0.0)[:, 0].astype(int)
    span = x.max(axis=(1, 2)) - x.min(axis=(1, 2))
    assert (span > 60).all()
    if size < 16:  # so coarse that a stroke is a pixel wide
        return
    border = np.concatenate([x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1]], axis=1)
    paper = x.min(axis=(1, 2))[:, None]
    assert ((border - paper) > span[:, None] // 2).mean() < 0.06  # strokes may touch the edge, rarely


def test_points_of_the_font_are_on_the_grid() -> None:
    for glyphs in DOMAINS.values():
        assert len(set(glyphs.values())) == len(glyphs)
        for glyph in glyphs.values():
            for _, points in strokes(glyph):
                assert len(points) > 1
                assert all(0 <= column <= 6 and 0 <= row <= 8 for column, row in points)
