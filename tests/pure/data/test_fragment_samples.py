"""Random choices: distinct, uniform, balanced, the same everywhere; and over many of them nothing is left out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.data.fragments.sample import draw
from laminar.data.fragments.table import FragmentTable
from laminar.data.order import subset
from laminar.data.spec import FragmentSpec

few = settings(derandomize=True, max_examples=60, deadline=None)
SPEC = FragmentSpec(size=10, overlap=0.0, rotate=90)


def chi_square(counts: np.ndarray, expected: np.ndarray | float) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def unlikely(freedom: int) -> float:
    """A chi-square sum that one honest draw in about 100,000 exceeds (Wilson and Hilferty's approximation, 4.26 deviations)."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 4.26 * part**0.5) ** 3


@few
@given(st.integers(0, 300), st.integers(0, 2**40), st.data())
def test_a_subset_has_distinct_numbers_in_range(count: int, seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, count))
    numbers = subset(count, size, seed, "x", 3)
    assert numbers.dtype == np.int64
    assert len(set(numbers.tolist())) == len(numbers) == size
    assert all(0 <= n < count for n in numbers)
    assert (subset(count, size, seed, "x", 3) == numbers).all()


def test_a_larger_subset_of_the_same_stream_begins_with_the_smaller() -> None:
    assert (subset(10_000, 500, 1, "a")[:100] == subset(10_000, 100, 1, "a")).all()
    assert (subset(10_000, 100, 1, "a") != subset(10_000, 100, 1, "b")).any()
    assert (subset(10_000, 100, 1, "a") != subset(10_000, 100, 2, "a")).any()


@pytest.mark.parametrize(("count", "size"), [(12, 3), (12, 6), (12, 7), (30, 4)])
def test_numbers_and_places_are_uniform(count: int, size: int) -> None:
    drawn = np.array([subset(count, size, seed, "uniform") for seed in range(4000)])
    for place in (0, size - 1):
        assert chi_square(np.bincount(drawn[:, place], minlength=count), 4000 / count) < unlikely(count - 1)
    assert chi_square(np.bincount(drawn.ravel(), minlength=count), 4000 * size / count) < unlikely(count - 1)
    pairs = np.bincount(drawn[:, 0] * count + drawn[:, 1], minlength=count**2).reshape(count, count)
    possible = ~np.eye(count, dtype=bool)
    assert chi_square(pairs[possible], 4000 / possible.sum()) < unlikely(possible.sum() - 1)


def test_a_small_choice_of_a_billion_costs_little() -> None:
    tracemalloc.start()
    numbers = subset(1_000_000_000, 1000, 5, "big")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(np.unique(numbers)) == 1000
    assert numbers.max() > 900_000_000
    assert peak < 500_000


def test_known_subsets_stay_as_they_are() -> None:
    assert subset(1_000_000_000, 5, 0, "golden").tolist() == GOLDEN_SPARSE
    assert subset(10, 6, 0, "golden").tolist() == GOLDEN_DENSE


GOLDEN_SPARSE = [920676579, 208346566, 302549103, 259741826, 950684205]
GOLDEN_DENSE = [0, 7, 2, 4, 8, 1]


def test_more_than_there_are_cannot_be_chosen() -> None:
    for count, size in ((3, 4), (3, -1)):
        with pytest.raises(ValueError, match="out of 3"):
            subset(count, size, 0)


def cells() -> tuple[FragmentTable, dict[str, np.ndarray]]:
    """Two classes; images of 4, 8, 12 and 24 fragments."""
    table = FragmentTable([(10, 10), (20, 10), (30, 20), (10, 30), (20, 10)], SPEC)
    return table, {"round": np.array([0, 2, 4]), "long": np.array([3, 1])}


def test_a_sample_is_balanced_distinct_and_of_its_own_images() -> None:
    table, groups = cells()
    for seed in range(50):
        chosen = draw(groups, table, 7, seed, "sample")
        assert len(np.unique(chosen)) == len(chosen) == 14
        for i, images in enumerate(groups.values()):
            part = chosen[7 * i : 7 * i + 7]
            assert (np.sort(part) == part).all()
            assert set(table.locate(part).image) <= set(images)


def test_every_fragment_is_as_likely_as_any_other_of_its_class() -> None:
    table, groups = cells()
    rounds = 3000
    seen = np.zeros(len(table), dtype=np.int64)
    for seed in range(rounds):
        seen[draw(groups, table, 5, seed, "sample")] += 1
    image = table.locate(np.arange(len(table))).image
    for images in groups.values():
        of_class = seen[np.isin(image, images)]
        assert of_class.sum() == 5 * rounds
        assert chi_square(of_class, of_class.mean()) < unlikely(len(of_class) - 1)


def test_over_many_samples_every_fragment_is_reached() -> None:
    table = FragmentTable([(64, 48)] * 6, FragmentSpec(size=16, overlap=0.5, rotate=30))
    groups = {"a": np.array([0, 2, 4]), "b": np.array([1, 3, 5])}
    reached = np.unique(np.concatenate([draw(groups, table, 100, seed, "sample") for seed in range(180)]))
    assert len(reached) == len(table)  # one is missed by all 180 with a chance of (1 - 100/1260)^180: 3 in ten million


def test_few_sources_are_chosen_uniformly_and_nothing_comes_from_others() -> None:
    table = FragmentTable([(40, 40)] * 10, SPEC)
    groups = {"a": np.arange(6), "b": np.arange(6, 10)}
    taken = np.zeros(10, dtype=np.int64)
    for seed in range(600):
        images = table.locate(draw(groups, table, 60, seed, "sample", sources=2)).image
        for part in (images[:60], images[60:]):
            assert len(np.unique(part)) == 2
            taken[np.unique(part)] += 1
    assert taken[:6].sum() == taken[6:].sum() == 1200
    assert chi_square(taken[:6], 200.0) < unlikely(5)
    assert chi_square(taken[6:], 300.0) < unlikely(3)


def test_a_class_is_drawn_the_same_whatever_the_other_classes() -> None:
    table, groups = cells()
    both = draw(groups, table, 5, 3, "sample")
    alone = draw({"long": groups["long"]}, table, 5, 3, "sample")
    assert (both[5:] == alone).all()
    assert (draw(groups, table, 5, 3, "sample-test") != both).any()


def test_a_whole_class_can_be_drawn() -> None:
    table, groups = cells()
    chosen = draw({"long": groups["long"]}, table, 20, 0, "sample")
    assert chosen.tolist() == [i for i in range(len(table)) if table.locate(np.array([i])).image[0] in (1, 3)]


def test_a_sample_larger_than_its_class_is_refused_with_the_largest_that_fits() -> None:
    table, groups = cells()
    with pytest.raises(LaminarError) as told:
        draw(groups, table, 30, 0, "sample")
    assert told.value.code == "L113"
    assert "30 fragments of class 'long'" in told.value.message
    assert "its 2 images have 20" in told.value.message
    assert told.value.hint.startswith("per_class = 20 ")
    assert len(draw(groups, table, 20, 0, "sample")) == 40
    with pytest.raises(LaminarError, match="test_per_class = 20"):
        draw(groups, table, 21, 0, "sample", setting="test_per_class")


def test_more_sources_than_images_are_refused() -> None:
    table, groups = cells()
    with pytest.raises(LaminarError) as told:
        draw(groups, table, 2, 0, "sample", sources=3)
    assert told.value.code == "L113"
    assert "3 images of class 'long'" in told.value.message
    assert "2 images" in told.value.message
    assert told.value.hint.startswith("sources = 2 ")


def test_a_sample_of_millions_of_fragments_costs_little() -> None:
    table = FragmentTable([(2272, 1704)] * 654, FragmentSpec(size=224, overlap=0.5, rotate=5))
    groups = {str(c): np.arange(c, 654, 6) for c in range(6)}
    tracemalloc.start()
    chosen = draw(groups, table, 400, 7, "sample")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(np.unique(chosen)) == 2400
    assert chosen.max() > len(table) * 0.99
    assert peak < 1_000_000


def test_a_known_sample_stays_as_it_is() -> None:
    """Samples are part of keys: a changed one would be a silent change of every layer trained on it."""
    table, groups = cells()
    assert draw(groups, table, 4, 7, "sample").tolist() == GOLDEN_SAMPLE
    assert draw(groups, table, 4, 7, "sample", sources=1).tolist() == GOLDEN_OF_ONE_SOURCE


GOLDEN_SAMPLE = [3, 16, 33, 51, 6, 7, 11, 44]
GOLDEN_OF_ONE_SOURCE = [49, 50, 53, 55, 38, 39, 40, 47]
