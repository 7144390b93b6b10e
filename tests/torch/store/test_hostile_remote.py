"""The net of hostile remotes, for a fixed number of seeds; `make fuzz NET=hostile_remote` goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.nets import hostile_remote

SEEDS = 100


@pytest.fixture
def net() -> Iterator[None]:
    yield
    hostile_remote.close()


def test_nothing_of_a_stranger_leaves_the_store(net: None) -> None:
    assert net is None
    counts = Counter(hostile_remote.check(seed).partition(":")[0] for seed in range(SEEDS))
    assert {"folder", "http", "s3", "index", "import"} <= set(counts), counts
