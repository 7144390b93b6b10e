"""Where rows of operators are cut, and to whom branches are dealt."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.parallel.stages.branches import deal
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


two_ways = st.tuples(st.integers(1, 20), st.integers(1, 20))


@given(st.lists(two_ways, min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 3))
def test_branches_are_dealt_as_well_as_can_be(spent: list[tuple[int, int]], lanes: int, toll: int) -> None:
    def time(dealt: tuple[int, ...]) -> float:
        def slowest(way: int) -> float:
            return max(sum(c[way] + (toll if at else 0) for c, at in zip(spent, dealt, strict=True) if at == lane) for lane in range(lanes))

        return slowest(0) + slowest(1)

    found = deal(spent, [[float(toll)] * 2] * len(spent), lanes)
    assert time(tuple(found)) == min(time(dealt) for dealt in product(range(lanes), repeat=len(spent)))


def test_many_branches_are_dealt_without_trying_everything() -> None:
    found = deal([[float(1 + i % 5)] for i in range(40)], [[0.0]] * 40, 4)
    loads = [sum(1 + i % 5 for i, lane in enumerate(found) if lane == one) for one in range(4)]
    assert max(loads) - min(loads) <= 1


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
