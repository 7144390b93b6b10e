"""What a fragment shows: what Pillow shows, the same bytes in whatever company."""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from laminar.data.fragments.cut import Pixels, cut, prepare
from laminar.data.fragments.reach import ONE
from laminar.data.fragments.table import FragmentTable
from laminar.data.fragments.turn import turn_of
from laminar.data.spec import FragmentSpec

few = settings(derandomize=True, max_examples=60, deadline=None)
TURNS = [1, 5, 30, 44, 45, 46, 60, 89, 91, 135, 180 + 17, 270 + 45, 359]


def picture(width: int, height: int, channels: int = 1, seed: int = 0) -> Pixels:
    """Smooth parts, edges and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    smooth = [110 + 60 * np.sin(x / (4 + c)) + 50 * np.cos(y / 3 + x / 13) for c in range(channels)]
    return np.clip(np.stack(smooth) + 50 * ((x // 9 + y // 7) % 2) + rng.normal(0, 10, (channels, height, width)), 0, 255).astype(np.uint8)


def fragment(image: Pixels, x: int, y: int, angle: int, size: int, edge: str = "mirror") -> Pixels:
    out = np.full((1, image.shape[0], size, size), 77, dtype=np.uint8)
    spec = FragmentSpec(size=size, edge=edge)  # type: ignore[arg-type]
    cut(prepare(image, spec), np.array([x]), np.array([y]), np.array([angle]), out)
    return out[0]


def by_pillow(image: Pixels, x: int, y: int, angle: int, size: int) -> Pixels:
    """The whole image turned about the fragment's centre."""
    whole = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0).copy())
    turned = whole.rotate(angle, Image.Resampling.BILINEAR, center=(x + size / 2, y + size / 2))
    square = np.asarray(turned.crop((x, y, x + size, y + size)))
    return square[None] if len(image) == 1 else square.transpose(2, 0, 1)


def difference(a: Pixels, b: Pixels) -> np.ndarray:
    return np.abs(a.astype(np.int16) - b)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [24, 25])
@pytest.mark.parametrize("angle", TURNS)
def test_a_turned_fragment_is_what_pillow_shows(angle: int, size: int, channels: int) -> None:
    image = picture(90, 70, channels)
    for x, y in ((20, 20), (33, 21), (40, 30)):
        off = difference(fragment(image, x, y, angle, size), by_pillow(image, x, y, angle, size))
        assert off.mean() < 0.1
        assert off.max() <= 2


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [24, 25])
def test_quarter_turns_are_exact_copies_and_what_pillow_shows(size: int, channels: int) -> None:
    image = picture(60, 50, channels)
    for x, y in ((0, 0), (7, 11), (60 - size, 50 - size)):
        crop = image[:, y : y + size, x : x + size]
        for quarters in range(4):
            square = fragment(image, x, y, 90 * quarters, size)
            assert (square == np.rot90(crop, quarters, axes=(1, 2))).all()
            assert (square == by_pillow(image, x, y, 90 * quarters, size)).all()


@pytest.mark.parametrize("angle", TURNS)
def test_a_black_edge_is_pillows(angle: int) -> None:
    image = picture(40, 33, 3)
    for x, y in ((0, 0), (16, 0), (0, 9), (16, 9), (8, 4)):
        off = difference(fragment(image, x, y, angle, 24, "black"), by_pillow(image, x, y, angle, 24))
        assert off.mean() < 0.2
        # A sample that falls on the border to a few billionths may be inside for one and outside for the other.
        assert np.count_nonzero(off > 2) <= 2 * 3


def test_a_mirrored_edge_is_the_padded_image() -> None:
    image, pad = picture(40, 33, 3), 8
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), mode="symmetric")
    for x, y in ((0, 0), (16, 0), (0, 9), (16, 9), (8, 4)):
        for angle in TURNS:
            assert (fragment(image, x, y, angle, 24) == fragment(padded, x + pad, y + pad, angle, 24)).all()


def test_edges_differ_only_where_a_fragment_leaves_its_image() -> None:
    image = np.full((1, 60, 60), 200, dtype=np.uint8)
    assert (fragment(image, 0, 0, 45, 20) == 200).all()
    black = fragment(image, 0, 0, 45, 20, "black")[0]
    assert set(np.unique(black)) == {0, 200}
    assert 0.05 < (black == 0).mean() < 0.3
    assert (fragment(image, 20, 20, 45, 20, "black") == 200).all()


@pytest.mark.parametrize("last", ["move", "drop"])
def test_inside_no_fragment_has_a_pixel_that_is_not_in_its_image(last: Literal["move", "drop"]) -> None:
    """The image is dark and lies in a bright frame. A fragment that shows any of the frame has read beyond the image."""
    size, border, width, height = 16, 16, 70, 53
    framed = np.full((1, height + 2 * border, width + 2 * border), 255, dtype=np.uint8)
    framed[:, border : border + height, border : border + width] = 0
    inside = FragmentTable([(width, height)], FragmentSpec(size=size, overlap=0.5, rotate=5, edge="inside", last=last))
    every = FragmentTable([(width, height)], FragmentSpec(size=size, overlap=0.5, rotate=5, last=last))

    def bright(table: FragmentTable) -> set[tuple[int, int, int]]:
        at = table.locate(np.arange(len(table)))
        out = np.empty((len(at), 1, size, size), dtype=np.uint8)
        cut(prepare(framed, FragmentSpec(size=size)), at.x + border, at.y + border, at.angle, out)
        shown = out.reshape(len(out), -1).any(axis=1)
        return set(zip(at.x[shown].tolist(), at.y[shown].tolist(), at.angle[shown].tolist(), strict=True))

    assert not bright(inside)
    left_out = len(every) - len(inside)
    assert 0 < left_out < len(every) / 2
    assert len(bright(every)) > 0.95 * left_out  # hardly one is left out that shows none of the frame
    image = picture(width, height)
    at = inside.locate(np.arange(len(inside)))
    cuts = [np.empty((len(at), 1, size, size), dtype=np.uint8) for _ in range(2)]
    for out, edge in zip(cuts, ("inside", "mirror"), strict=True):
        cut(prepare(image, FragmentSpec(size=size, edge=edge)), at.x, at.y, at.angle, out)
    assert (cuts[0] == cuts[1]).all()


def test_inside_a_fragment_that_leaves_its_image_is_refused() -> None:
    image = picture(60, 50)
    assert fragment(image, 0, 0, 90, 16, "inside").shape == (1, 16, 16)
    with pytest.raises(ValueError, match="a turned fragment at 0, 8 leaves its image of 60x50"):
        fragment(image, 0, 8, 30, 16, "inside")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_an_image_no_larger_than_its_fragment_can_be_cut(size: int) -> None:
    image = picture(size, size)
    padded = np.pad(image, ((0, 0), (4, 4), (4, 4)), mode="symmetric" if size > 3 else "edge")
    for angle in range(360):
        square = fragment(image, 0, 0, angle, size)
        assert image.min() <= square.min() <= square.max() <= image.max()
        if size > 3:
            assert (square == fragment(padded, 4, 4, angle, size)).all()
        off = difference(fragment(image, 0, 0, angle, size, "black"), by_pillow(image, 0, 0, angle, size))
        assert np.count_nonzero(off > 2) <= 2


@few
@given(st.data(), st.integers(1, 3), st.sampled_from(["mirror", "black"]))
def test_company_changes_no_byte(data: st.DataObject, channels: int, edge: str) -> None:
    """One at a time, or hundreds together in any order and into any rows."""
    image, size = picture(50, 44, channels), 12
    places = st.tuples(st.integers(0, 38), st.integers(0, 32), st.integers(0, 359))
    chosen = data.draw(st.lists(places, min_size=1, max_size=12)) * data.draw(st.sampled_from([1, 30]))
    x, y, angle = np.array(chosen).T
    rows = np.random.default_rng(0).permutation(len(chosen) + 3)[: len(chosen)]
    out = np.zeros((len(chosen) + 3, channels, size, size), dtype=np.uint8)
    cut(prepare(image, FragmentSpec(size=size, edge=edge)), x, y, angle, out, rows)  # type: ignore[arg-type]
    for (at_x, at_y, turned), row in dict(zip(chosen, rows, strict=True)).items():
        assert (out[row] == fragment(image, at_x, at_y, turned, size, edge)).all()
    assert not out[np.setdiff1d(np.arange(len(out)), rows)].any()


def test_many_channels_are_cut_each_for_itself() -> None:
    image = picture(50, 40, 3)
    for angle in (0, 30, 250):
        colour = fragment(image, 3, 4, angle, 20)
        for channel in range(3):
            assert (colour[channel] == fragment(image[channel : channel + 1], 3, 4, angle, 20)[0]).all()


def test_known_fragments_stay_as_they_are() -> None:
    """Fragments are the samples that keys promise: other bytes would be a silent change of every layer trained on them."""
    image = (np.arange(40 * 40, dtype=np.int64) ** 2 * 7919 % 251).astype(np.uint8).reshape(1, 40, 40)
    seen = hashlib.sha256()
    for angle in range(0, 360, 7):
        for edge in ("mirror", "black"):
            seen.update(fragment(image, 2, 20, angle, 20, edge).tobytes())
    assert seen.hexdigest() == GOLDEN_FRAGMENTS
    assert fragment(image, 2, 20, 35, 20)[0, 0, :6].tolist() == GOLDEN_PIXELS


GOLDEN_FRAGMENTS = "a1c56a948164d6d8379270da55523e917321df0d38a5d2384064f869d6c28272"
GOLDEN_PIXELS = [181, 68, 81, 83, 168, 187]  # worked out one by one, in floating point


def test_no_cosine_lies_where_libraries_could_round_it_apart() -> None:
    for degrees in range(1, 90):
        for value in (math.cos(math.radians(degrees)), math.sin(math.radians(degrees))):
            assert abs(value * ONE % 1 - 0.5) > 1e-4  # a thousand times the last bit of a double


@pytest.mark.parametrize("degrees", [1, 30, 45, 89])
def test_weights_are_whole_and_offsets_inside_the_window(degrees: int) -> None:
    turn = turn_of(31, degrees)
    assert (turn.left.astype(int).sum(axis=0) + turn.right.astype(int).sum(axis=0) == 256).all()
    assert turn.offsets.min() >= 0
    assert turn.offsets.max() + turn.side - 1 < turn.side * (turn.side - 1)


def test_bad_calls_are_refused() -> None:
    image = picture(30, 30)
    with pytest.raises(ValueError, match="expected bytes"):
        prepare(image, FragmentSpec(size=31))
    with pytest.raises(ValueError, match="expected bytes"):
        prepare(image.astype(np.float32), FragmentSpec(size=8))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leaves its image of 30x30"):
        fragment(image, 23, 0, 0, 8)
    with pytest.raises(ValueError, match=r"expected \(n, 1, 8, 8\)"):
        cut(prepare(image, FragmentSpec(size=8)), *np.zeros((3, 1), dtype=int), np.zeros((1, 1, 9, 9), dtype=np.uint8))
