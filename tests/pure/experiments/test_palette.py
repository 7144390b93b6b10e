"""Colours of pages and pictures: enough contrast to be seen, and far enough apart for every kind of eye."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from laminar.core.page import DARK, LIGHT
from laminar.experiments.pictures.palette import SERIES_DARK, SERIES_LIGHT, pen

Vector = NDArray[np.float64]

# Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009: severity 1
EYES = {
    "usual": np.eye(3),
    "without red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "without green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "without blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}


def linear(colour: str) -> Vector:
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.1."""
    light, dark = sorted((float(linear(c) @ np.array([0.2126, 0.7152, 0.0722])) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: Vector) -> Vector:
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ np.clip(rgb, 0, 1)
        / np.array([0.9505, 1, 1.089])
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


PAGES = [(LIGHT, SERIES_LIGHT), (DARK, SERIES_DARK)]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("name", ["text", "dim", "good", "bad", "warn", "link"])
def test_text_can_be_read(colours: dict[str, str], name: str) -> None:
    for behind in ("card", "back", "soft"):
        assert contrast(colours[name], colours[behind]) >= 4.5, behind


@pytest.mark.parametrize(("colours", "series"), PAGES)
def test_lines_can_be_seen(colours: dict[str, str], series: tuple[str, ...]) -> None:
    assert min(contrast(one, colours["card"]) for one in series) >= 3.0


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(("colours", "series"), PAGES)
def test_lines_can_be_told_apart_by_every_eye(colours: dict[str, str], series: tuple[str, ...], eye: str) -> None:
    seen = [lab(EYES[eye] @ linear(one)) for one in (colours["text"], *series)]
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) >= 12


def test_no_two_pens_are_alike_in_grey() -> None:
    pens = [pen(place) for place in range(18)]
    assert len({(one.dash, one.marker) for one in pens[:6]}) == 6
    assert len({(one.colour, one.dash, one.marker) for one in pens}) == 18
