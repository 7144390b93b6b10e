"""Where fragments lie, and their numbers."""

from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.data.fragments.grid import angles, per_image, positions, stride, way_of_counting
from laminar.data.fragments.table import FragmentTable
from laminar.data.fragments.turn import turn_of
from laminar.data.spec import FragmentSpec

few = settings(derandomize=True, max_examples=80, deadline=None)
overlaps = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.99])
lasts = st.sampled_from(["move", "drop"])
specs = st.builds(
    FragmentSpec,
    size=st.integers(2, 20),
    overlap=overlaps,
    rotate=st.sampled_from([0, 5, 45, 90, 100, 359]),
    edge=st.sampled_from(["mirror", "black", "inside"]),
    last=lasts,
)


@few
@given(st.integers(2, 40), st.integers(0, 90), overlaps)
def test_every_pixel_is_covered_and_no_fragment_leaves(size: int, more: int, overlap: float) -> None:
    length = size + more
    starts = positions(length, size, overlap)
    covered = {pixel for start in starts for pixel in range(start, start + size)}
    assert covered == set(range(length))
    assert list(starts) == sorted(set(starts))
    assert len(starts) == math.ceil((length - size) / stride(size, overlap)) + 1
    assert {b - a for a, b in pairwise(starts[:-1])} <= {stride(size, overlap)}


@few
@given(st.integers(2, 40), st.integers(0, 90), overlaps)
def test_dropped_places_are_those_that_would_be_moved(size: int, more: int, overlap: float) -> None:
    length = size + more
    dropped, moved = positions(length, size, overlap, "drop"), positions(length, size, overlap)
    assert len(dropped) == (length - size) // stride(size, overlap) + 1
    assert dropped == tuple(start for i, start in enumerate(moved) if start == i * stride(size, overlap))


def test_the_counts_of_the_grid_study() -> None:
    """192 as published; turned, squares that leave the image are not counted: the way of the table in explanation-fragments.md."""
    upright = FragmentSpec(size=256, overlap=0.5, last="drop")
    assert per_image(2272, 1704, upright) == 16 * 12 == 192
    assert way_of_counting(2272, 1704, upright) == "16 x 12 = 192 places"
    every = FragmentSpec(size=256, overlap=0.5, rotate=5, last="drop")
    assert per_image(2272, 1704, every) == 192 * 72
    assert way_of_counting(2272, 1704, every) == "16 x 12 = 192 places at each of 72 angles"
    inside = FragmentSpec(size=256, overlap=0.5, rotate=5, edge="inside", last="drop")
    assert per_image(2272, 1704, inside) == 11_448
    assert way_of_counting(2272, 1704, inside) == "16 x 12 = 192 places at 72 angles, less the turned squares that leave the image"
    table = FragmentTable([(2272, 1704)] * 654, inside)
    assert len(table) == 7_486_992
    page = (Path(__file__).parents[3] / "docs" / "explanation-fragments.md").read_text(encoding="utf-8")
    assert all(figure in page for figure in ("| **11,448** | **7,486,992** |", "| 6,972 | 4,559,688 |", "| 13,824 | 9,040,896 |"))


def test_the_grid_of_a_microscope_image() -> None:
    assert len(positions(2272, 224, 0.5)) == 20
    assert len(positions(1704, 224, 0.5)) == 15
    assert per_image(2272, 1704, FragmentSpec(size=224, overlap=0.5)) == 300
    assert per_image(2272, 1704, FragmentSpec(size=224, overlap=0.5, rotate=5)) == 21_600
    assert positions(10, 4, 0.5) == (0, 2, 4, 6)
    assert positions(11, 4, 0.5) == (0, 2, 4, 6, 7)
    assert positions(4, 4, 0.5) == (0,)


@pytest.mark.parametrize(("size", "overlap", "pixels"), [(5, 0.5, 3), (15, 0.9, 2), (3, 0.5, 2), (10, 0.3, 7), (2, 0.99, 1), (96, 0.0, 96)])
def test_half_a_pixel_of_stride_is_rounded_up_as_the_overlap_is_written(size: int, overlap: float, pixels: int) -> None:
    assert stride(size, overlap) == pixels


def test_angles_stay_below_a_full_turn() -> None:
    assert angles(0) == (0,)
    assert angles(90) == (0, 90, 180, 270)
    assert angles(100) == (0, 100, 200, 300)
    assert len(angles(5)) == 72


def test_an_image_smaller_than_a_fragment_is_refused() -> None:
    with pytest.raises(ValueError, match="224 pixels do not fit into 223"):
        positions(223, 224, 0.5)
    with pytest.raises(ValueError, match="224"):
        FragmentTable([(300, 300), (300, 223)], FragmentSpec(size=224))


def lies_inside(x: int, y: int, angle: int, width: int, height: int, size: int) -> bool:
    """By what is read when a fragment is cut."""
    turn = turn_of(size, angle % 90)
    rows, columns = np.divmod(turn.offsets, turn.side - 1)
    return bool(
        x + turn.start + columns.min() >= 0
        and y + turn.start + rows.min() >= 0
        and x + turn.start + columns.max() + 1 < width
        and y + turn.start + rows.max() + 1 < height
    )


@few
@given(st.lists(st.tuples(st.integers(20, 60), st.integers(20, 60)), max_size=5), specs)
def test_numbers_run_by_image_angle_row_and_column(sizes: list[tuple[int, int]], spec: FragmentSpec) -> None:
    table = FragmentTable(sizes, spec)
    expected = [
        (image, x, y, angle)
        for image, (width, height) in enumerate(sizes)
        for angle in angles(spec.rotate)
        for y in positions(height, spec.size, spec.overlap, spec.last)
        for x in positions(width, spec.size, spec.overlap, spec.last)
        if spec.edge != "inside" or angle % 90 == 0 or lies_inside(x, y, angle, width, height, spec.size)
    ]
    assert len(table) == len(expected)
    picked = np.arange(0, len(table), max(1, len(table) // 500))
    at = table.locate(picked)
    assert list(zip(at.image, at.x, at.y, at.angle, strict=True)) == [expected[i] for i in picked]
    assert (table.index_of(at.image, at.x, at.y, at.angle) == picked).all()
    assert [table.count(i) for i in range(len(sizes))] == [per_image(*size, spec) for size in sizes]
    assert [table.size(i) for i in range(len(sizes))] == sizes
    for image, first in enumerate(table.first):
        assert expected[first] == (image, 0, 0, 0)


def test_one_fragment_is_found_by_plain_numbers() -> None:
    table = FragmentTable([(30, 40), (50, 33)], FragmentSpec(size=16, overlap=0.5, rotate=90))
    index = int(table.index_of(1, 34, 17, 180))
    at = table.locate(np.array([index]))
    assert (at.image[0], at.x[0], at.y[0], at.angle[0]) == (1, 34, 17, 180)


def test_what_would_leave_the_image_has_no_number() -> None:
    table = FragmentTable([(30, 40), (30, 40)], FragmentSpec(size=16, overlap=0.5, rotate=45, edge="inside"))
    assert table.locate(table.index_of([1, 0], [8, 0], [8, 0], [45, 180])).x.tolist() == [8, 0]
    for where in ((0, 0, 8, 45), (0, 8, 0, 45), (1, 14, 8, 45), (1, 8, 24, 135)):
        with pytest.raises(ValueError, match="no fragment begins"):
            table.index_of(*where)


def test_an_image_that_no_turned_square_fits_into_has_the_upright_ones() -> None:
    table = FragmentTable([(16, 16), (60, 60), (16, 16)], FragmentSpec(size=16, rotate=45, edge="inside"))
    at = table.locate(np.arange(len(table)))
    assert [angle for image, angle in zip(at.image, at.angle, strict=True) if image != 1] == [0, 90, 180, 270] * 2
    assert 45 in at.angle[at.image == 1]


@pytest.mark.parametrize("where", [(0, 1, 0, 0), (0, 0, 25, 0), (0, -8, 0, 0), (0, 0, 0, 45), (0, 0, 0, 360), (0, 16, 0, 0)])
def test_what_is_not_in_the_grid_has_no_number(where: tuple[int, int, int, int]) -> None:
    table = FragmentTable([(30, 40)], FragmentSpec(size=16, overlap=0.5, rotate=90))
    with pytest.raises(ValueError, match="no fragment"):
        table.index_of(*where)


def test_numbers_outside_of_the_table_are_refused() -> None:
    table = FragmentTable([(30, 40)], FragmentSpec(size=16))
    for outside in (-1, len(table)):
        with pytest.raises(IndexError, match=str(len(table))):
            table.locate(np.array([0, outside]))
    with pytest.raises(IndexError):
        table.index_of(1, 0, 0, 0)
    assert len(table.locate(np.array([], dtype=np.int64))) == 0


def test_millions_of_fragments_cost_next_to_nothing() -> None:
    sizes = [(2272, 1704)] * 600 + [(1000 + i, 1704) for i in range(54)]
    tracemalloc.start()
    table = FragmentTable(sizes, FragmentSpec(size=224, overlap=0.3, rotate=5))
    located = table.locate(np.array([0, len(table) // 2, len(table) - 1]))
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) > 4_500_000
    assert located.image.tolist() == [0, 312, 653]
    assert held < 100_000
    assert peak < 1_000_000
