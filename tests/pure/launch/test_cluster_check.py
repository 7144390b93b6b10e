"""Which pairs of workers are measured."""

from __future__ import annotations

import pytest

from laminar.launch.check import PAIRS, pairs


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 11, 50])
def test_everybody_is_in_a_pair_and_no_pair_is_there_twice(size: int) -> None:
    found = pairs(list(range(size)))
    assert len(set(found)) == len(found) == min(size * (size - 1) // 2, max(PAIRS, size))
    assert {one for pair in found for one in pair} == (set(range(size)) if size > 1 else set())
