"""Orders of large data: blocks in random order, windows of them mixed; the same whatever memory there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.data import order
from laminar.data.batches import Batches
from laminar.data.open import open_data
from laminar.data.order import Shuffled, permutation, sorted_places
from laminar.data.room import Room
from laminar.data.spec import DataSpec

few = settings(derandomize=True, max_examples=60, deadline=None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data above 1,000 bytes is large; windows are of four blocks of 64 bytes."""
    monkeypatch.setattr(order, "WHOLE", 1000)
    monkeypatch.setattr(order, "BLOCK_BYTES", 64)
    monkeypatch.setattr(order, "WINDOW_BLOCKS", 4)


def test_small_data_keeps_the_order_it_always_had() -> None:
    shuffled = Shuffled(50, 784, 3, 2)
    assert shuffled.part(0, 50).tolist() == permutation(50, 3, "shuffle", 2).tolist()
    assert shuffled.part(7, 20).tolist() == permutation(50, 3, "shuffle", 2)[7:20].tolist()
    assert shuffled.coming(50) == []


@few
@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1), max_size=60))
def test_places_are_those_of_a_stable_sort_also_where_words_are_close_or_equal(words: list[int]) -> None:
    given = np.array(words, dtype=np.uint64)
    places = sorted_places(given)
    assert places.dtype == np.intp
    assert places.tolist() == np.argsort(given, kind="stable").tolist()


@few
@given(count=st.integers(1, 400), row=st.integers(1, 100), seed=st.integers(0, 3), data=st.data())
def test_every_sample_comes_once_and_parts_fit_together(count: int, row: int, seed: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("WHOLE", 1000), ("BLOCK_BYTES", 64), ("WINDOW_BLOCKS", 4)):
            patch.setattr(order, name, value)
        whole = Shuffled(count, row, seed, 1).part(0, count)
        assert sorted(whole.tolist()) == list(range(count))
        cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
        again = Shuffled(count, row, seed, 1)
        parts = [again.part(a, b) for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
        assert np.concatenate(parts).tolist() == whole.tolist()


@pytest.mark.usefixtures("small")
def test_windows_are_mixed_and_blocks_stay_together() -> None:
    shuffled = Shuffled(320, 8, 0, 0)  # 40 blocks of 8, windows of 32 samples
    windows = shuffled.part(0, 320).reshape(10, 32)
    for window in windows:
        blocks = {int(i) // 8 for i in window}
        assert len(blocks) == 4  # four whole blocks
        assert sorted(window.tolist()) != window.tolist()
        assert len({int(i) // 8 for i in window[:8]}) > 1
    first = [tuple(sorted({int(i) // 8 for i in w})) for w in windows]
    assert any(b[-1] - b[0] > 4 for b in first)  # not neighbours
    others = [Shuffled(320, 8, seed, epoch).part(0, 320).tolist() for seed, epoch in ((1, 0), (0, 1))]
    assert len({tuple(o) for o in (*others, shuffled.part(0, 320).tolist())}) == 3


@pytest.mark.usefixtures("small")
def test_a_known_order_of_large_data_stays_as_it_is() -> None:
    assert Shuffled(140, 8, 0, 0).part(0, 12).tolist() == GOLDEN


GOLDEN = [9, 12, 136, 137, 81, 126, 85, 84, 14, 87, 139, 11]


@pytest.mark.usefixtures("small")
def test_what_comes_is_said_once_and_before_it_is_needed() -> None:
    shuffled = Shuffled(325, 8, 0, 0)
    told: set[int] = set()
    for first in range(0, 325, 10):
        last = min(first + 10, 325)
        for near, far in shuffled.coming(last):
            rows = set(range(near, far))
            assert not rows & told
            told |= rows
        assert set(shuffled.part(first, last).tolist()) <= told
    assert told == set(range(325))


@pytest.mark.usefixtures("small")
def test_the_order_does_not_depend_on_the_budget(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (500, 1, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(500) % 3)
    seen = []
    for memory in (None, "100", "6kB"):
        data = open_data(DataSpec(source="npz:d.npz", memory=memory), tmp_path)
        with Batches(data.train.x, data.train.y, batch=32, seed=1, block_bytes=4000) as batches:
            seen.append([(block.index.tolist(), block.x[0].tobytes()) for block in batches.epoch(0)])
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.usefixtures("small")
def test_what_is_computed_from_samples_comes_in_their_order() -> None:
    y = np.arange(300)
    orders = []
    for x in (np.zeros((300, 10), dtype=np.uint8), np.zeros((300, 500), dtype=np.float32)):
        with Batches(x, y, batch=32, seed=1, row_bytes=10) as batches:
            orders.append(np.concatenate([block.index for block in batches.epoch(0)]).tolist())
    assert orders[0] == orders[1]


def test_mapped_inputs_give_the_same_batches_augmented_or_not() -> None:
    from laminar.data.spec import AugmentSpec

    for kind in (np.uint8, np.float32):
        x = np.random.default_rng(0).integers(0, 200, (90, 1, 8, 8)).astype(kind)
        on_disk = Room(1).take(x, np.arange(90))
        for augment in (None, AugmentSpec(flip="both", shift=1, noise=0.1)):
            got = []
            for source in (x, on_disk):
                with Batches(source, np.arange(90), batch=16, seed=1, augment=augment, block_bytes=9000) as batches:
                    got.append([(block.x[0].tobytes(), block.y.tolist()) for block in batches.epoch(0)])
            assert got[0] == got[1]
