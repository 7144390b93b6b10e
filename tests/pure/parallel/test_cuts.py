"""Where rows of operators are cut, and to whom branches are dealt."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.parallel.stages.branches import Spent, deal
from laminar.parallel.stages.cut import TooFew, cut_evenly
from laminar.parallel.stages.micro import in_portions, micro_batches

costs = st.lists(st.integers(0, 20).map(float), min_size=2, max_size=9)


@given(costs, st.integers(1, 4), st.data())
def test_the_slowest_stage_is_as_fast_as_can_be(spent: list[float], stages: int, data: st.DataObject) -> None:
    tolls = [None if data.draw(st.integers(0, 3)) == 0 else float(data.draw(st.integers(0, 5))) for _ in spent]
    places = [i for i in range(1, len(spent)) if tolls[i] is not None]
    if len(places) < stages - 1:
        with pytest.raises(TooFew):
            cut_evenly(spent, tolls, stages)
        return

    def slowest(ends: tuple[int, ...]) -> float:
        edges = [0, *ends, len(spent)]
        return max(sum(spent[a:b]) + (tolls[b] or 0.0 if b < len(spent) else 0.0) for a, b in pairwise(edges))

    best = min(slowest(ends) for ends in combinations(places, stages - 1))
    found = cut_evenly(spent, tolls, stages)
    assert found == sorted(found)
    assert set(found) == set(range(stages))
    ends = tuple(i for i in range(1, len(spent)) if found[i] != found[i - 1])
    assert slowest(ends) == pytest.approx(best)


three_ways = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 20))
block_of_branches = st.lists(three_ways, min_size=1, max_size=3)


@given(st.lists(block_of_branches, min_size=1, max_size=2), st.lists(st.integers(0, 20), min_size=1, max_size=3), st.integers(0, 3))
def test_branches_are_dealt_as_well_as_can_be(blocks: list[list[tuple[int, int, int]]], left: list[int], toll: int) -> None:
    lanes = range(len(left))

    def slowest(block: list[tuple[int, int, int]], dealt: Sequence[int], way: int) -> int:
        return max(sum(one[way] + (toll if at else 0) for one, at in zip(block, dealt, strict=True) if at == lane) for lane in lanes)

    def whole(dealt: Sequence[Sequence[int]]) -> float:
        pairs = list(zip(blocks, dealt, strict=True))
        weights = [
            left[lane] + sum(one[2] for block, lanes_of in pairs for one, at in zip(block, lanes_of, strict=True) if at == lane)
            for lane in lanes
        ]
        return sum(slowest(block, lanes_of, way) for block, lanes_of in pairs for way in (0, 1)) + max(weights)

    found = deal([[Spent(*one, toll) for one in block] for block in blocks], left)
    everything = product(*(list(product(lanes, repeat=len(block))) for block in blocks))
    assert whole(found) == min(map(whole, everything))


def test_the_long_branches_of_two_blocks_go_to_different_lanes() -> None:
    """What is left for the end is then as much for both."""
    block = [Spent(6.0, 6.0, 6.0, toll=0.1), Spent(4.0, 4.0, 4.0, toll=0.1)]
    (first, _), (second, _) = deal([block, block], [0.0, 0.0])
    assert {first, second} == {0, 1}


def test_many_branches_are_dealt_without_trying_everything() -> None:
    (found,) = deal([[Spent(float(1 + i % 5), 0.0) for i in range(40)]], [0.0] * 4)
    loads = [sum(1 + i % 5 for i, lane in enumerate(found) if lane == one) for one in range(4)]
    assert max(loads) - min(loads) <= 1


def test_wide_blocks_are_dealt_at_once() -> None:
    """32768 ways for each, all different: with the 200 best of those before, that would be millions."""
    seconds = random.Random(0)
    blocks = [[Spent(*(seconds.uniform(1, 2) for _ in range(3)), toll=0.01) for _ in range(15)] for _ in range(3)]
    began = time.process_time()
    found = deal(blocks, [0.0, 0.0])
    assert time.process_time() - began < 5
    for way in ("forward", "inputs"):
        for block, lanes in zip(blocks, found, strict=True):
            loads = [
                sum(getattr(one, way) + one.toll * lane for one, at in zip(block, lanes, strict=True) if at == lane) for lane in (0, 1)
            ]
            assert max(loads) < 0.53 * sum(loads)
    behind = [
        sum(one.weights for block, lanes in zip(blocks, found, strict=True) for one, at in zip(block, lanes, strict=True) if at == lane)
        for lane in (0, 1)
    ]
    assert max(behind) < 0.51 * sum(behind)


@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 4))
def test_micro_batches_have_every_row_once(rows: int, wanted: int, parts: int) -> None:
    every = [micro_batches(rows, wanted, place=place, parts=parts) for place in range(parts)]
    assert len({len(some) for some in every}) == 1
    assert len(every[0]) <= wanted
    assert sum(one.rows for one in every[0]) == rows
    for place, some in enumerate(every):
        assert [one.rows for one in some] == [one.rows for one in every[0]]
        assert some[-1].own.stop == rows * (place + 1) // parts - rows * place // parts  # what the loop gives this worker
        for one in some:
            assert one.own_rows == one.rows * (place + 1) // parts - one.rows * place // parts


def test_portions_are_no_larger_than_said() -> None:
    assert [one.own_rows for one in in_portions(10, 4)] == [4, 4, 2]
