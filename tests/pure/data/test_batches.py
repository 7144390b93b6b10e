"""Batches: every sample once, the same for every block size, and a thread that always ends."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.data import gather
from laminar.data.batches import Batches
from laminar.data.dataset import as_float
from laminar.data.gather import Gather
from laminar.data.spec import AugmentSpec

few = settings(derandomize=True, max_examples=40, deadline=None)


def samples(count: int, size: int = 4) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(count).integers(0, 256, (count, 1, size, size), dtype=np.uint8)
    return x, np.arange(count, dtype=np.int64)


def run(batches: Batches, epoch: int, start: int = 0) -> list[tuple[list[np.ndarray], np.ndarray]]:
    return [([x[s].copy() for x in block.x], block.y[s].copy()) for block in batches.epoch(epoch, start) for s in block.slices]


def equal(one: list[tuple[list[np.ndarray], np.ndarray]], two: list[tuple[list[np.ndarray], np.ndarray]]) -> bool:
    return len(one) == len(two) and all(
        np.array_equal(y1, y2) and all(np.array_equal(a, b) for a, b in zip(x1, x2, strict=True))
        for (x1, y1), (x2, y2) in zip(one, two, strict=True)
    )


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("laminar-batches")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> object:
    yield
    gc.collect()
    assert not threads()


@few
@given(st.integers(1, 70), st.integers(1, 20), st.integers(0, 3), st.sampled_from([None, 1, 300, 1000]))
def test_every_sample_comes_once_in_an_epoch(count: int, batch: int, epoch: int, block_bytes: int | None) -> None:
    x, y = samples(count)
    with Batches(x, y, batch=batch, seed=1, block_bytes=block_bytes) as batches:
        got = run(batches, epoch)
    assert len(got) == len(batches) == -(-count // batch)
    assert all(len(b) == batch for _, b in got[:-1])
    order = np.concatenate([b for _, b in got])
    assert sorted(order) == list(range(count))
    assert np.array_equal(np.concatenate([a[0] for a, _ in got]), as_float(x)[order])


@few
@given(st.integers(1, 60), st.integers(1, 9), st.sampled_from([1, 200, 700]), st.data())
def test_starting_at_a_batch_equals_the_rest_of_the_epoch(count: int, batch: int, block_bytes: int, data: st.DataObject) -> None:
    x, y = samples(count)
    augment = AugmentSpec(flip="both", shift=1, noise=0.1)
    with Batches(x, y, batch=batch, seed=2, augment=augment) as whole:
        first = run(whole, 1)
    start = data.draw(st.integers(0, len(first)))
    with Batches(x, y, batch=batch, seed=2, augment=augment, block_bytes=block_bytes) as resumed:
        assert equal(run(resumed, 1, start), first[start:])
        assert equal(run(resumed, 1), first)


@few
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 400), st.data())
def test_rows_of_batches_in_stretches_are_those_rows(count: int, batch: int, block_bytes: int, data: st.DataObject) -> None:
    """As members of a team take them, whose parts change from time to time; a part may be empty."""
    x, y = samples(count)
    change = AugmentSpec(flip="horizontal", noise=0.1)
    with Batches(x, y, batch=batch, seed=1, augment=change) as whole:
        wanted = run(whole, 2)
    own = Batches(x, y, batch=batch, seed=1, augment=change, block_bytes=block_bytes, background=False)
    first = 0
    while first < own.count:
        last = data.draw(st.integers(first + 1, own.count))
        low, high = sorted(data.draw(st.lists(st.floats(0, 1), min_size=2, max_size=2)))

        def part(rows: int, low: float = low, high: float = high) -> slice[int, int]:
            return slice(int(rows * low), int(rows * high))

        found = [(b.x[0][s].copy(), b.y[s].copy()) for b in own.some(2, first, last, part) for s in b.slices]
        assert len(found) == last - first
        for (xs, labels), (got, own_labels) in zip(wanted[first:last], found, strict=True):
            assert np.array_equal(own_labels, labels[part(len(labels))])
            assert np.array_equal(got, xs[0][part(len(labels))])
        first = last


def test_epochs_and_seeds_differ_and_repeat() -> None:
    x, y = samples(50)
    with Batches(x, y, batch=8, seed=0) as a, Batches(x, y, batch=8, seed=1) as b:
        orders = [np.concatenate([y for _, y in run(batches, e)]).tolist() for batches in (a, b) for e in (0, 1)]
        assert len({tuple(o) for o in orders}) == 4
        assert np.concatenate([y for _, y in run(a, 0)]).tolist() == orders[0]


def test_a_known_order_stays_as_it_is() -> None:
    """A resumed run must continue the order of the run that was broken off, whatever was upgraded between."""
    x, y = samples(10)
    with Batches(x, y, batch=10, seed=0) as batches:
        assert run(batches, 0)[0][1].tolist() == GOLDEN_ORDER


GOLDEN_ORDER = [7, 4, 3, 0, 8, 1, 9, 5, 2, 6]


def test_without_shuffling_the_order_is_the_data_s() -> None:
    x, y = samples(20)
    with Batches(x, y, batch=6, seed=0, shuffle=False) as batches:
        assert np.concatenate([y for _, y in run(batches, 3)]).tolist() == list(range(20))


def test_several_inputs_and_memory_maps(tmp_path: Path) -> None:
    kept = np.lib.format.open_memmap(tmp_path / "kept.npy", mode="w+", dtype=np.float16, shape=(30, 7))
    kept[:] = np.arange(210).reshape(30, 7)
    exact = np.arange(60, dtype=np.float64).reshape(30, 2)
    y = np.arange(30, dtype=np.float32)[:, None]
    with Batches([kept, exact], y, batch=4, seed=5, block_bytes=500) as batches:
        for (features, numbers), target in run(batches, 0):
            rows = target[:, 0].astype(int)
            assert features.dtype == np.float32
            assert np.array_equal(features, kept[rows].astype(np.float32))
            assert numbers.dtype == np.float64
            assert np.array_equal(numbers, exact[rows])


def test_bytes_are_divided_by_255_exactly() -> None:
    x = np.arange(256, dtype=np.uint8)[:, None]
    with Batches(x, np.arange(256), batch=256, seed=0, shuffle=False) as batches:
        (got,), _ = run(batches, 0)[0]
    assert np.array_equal(got[:, 0], np.arange(256, dtype=np.float32) / np.float32(255))


def test_blocks_tell_where_they_are() -> None:
    x, y = samples(25)
    with Batches(x, y, batch=4, seed=0, block_bytes=2 * 4 * 64) as batches:
        seen = [(block.epoch, block.first, len(block.slices), block.index.tolist(), block.y.tolist()) for block in batches.epoch(2, 1)]
    assert [s[:3] for s in seen] == [(2, 1, 2), (2, 3, 2), (2, 5, 2)]
    assert all(index == y for *_, index, y in seen)


def test_memory_is_used_again_and_starts_on_a_cache_line() -> None:
    x, y = samples(200)
    with Batches(x, y, batch=4, seed=0, block_bytes=8 * 64) as batches:
        places = [block.x[0].ctypes.data for e in range(2) for block in batches.epoch(e)]
    assert len(set(places)) <= 3
    assert all(place % 64 == 0 for place in places)


def test_an_abandoned_epoch_goes_on_where_it_was_left_or_starts_anew() -> None:
    x, y = samples(40)
    with Batches(x, y, batch=4, seed=0, block_bytes=4 * 64) as batches:
        whole = run(batches, 0)
        for block in batches.epoch(0):
            if block.first == 3:
                break
        assert equal(run(batches, 0, 4), whole[4:])
        assert equal(run(batches, 0), whole)


def test_an_error_while_gathering_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(*_: object) -> None:
        raise OSError("the disk is gone")

    x, y = samples(20)
    with Batches(x, y, batch=4, seed=0) as batches:
        monkeypatch.setattr(type(batches._gather), "chunk", torn)
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                run(batches, 0)


def test_whoever_waits_for_a_block_takes_some_of_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every chunk waits for another thread to begin one: alone, either would wait for ever."""
    x, y = samples(8)
    both = threading.Barrier(2, timeout=60)
    chunk = Gather.chunk
    seen: set[str] = set()

    def together(self: Gather, *args: Any) -> None:
        both.wait()
        seen.add(threading.current_thread().name)
        chunk(self, *args)

    monkeypatch.setattr(gather, "CHUNK", 64)  # a sample each
    monkeypatch.setattr(Gather, "chunk", together)
    with Batches(x, y, batch=4, seed=0, block_bytes=8 * 64, epochs=1) as batches:
        got = run(batches, 0)
    assert len(seen) == 2
    order = np.concatenate([b for _, b in got])
    assert np.array_equal(np.concatenate([a[0] for a, _ in got]), as_float(x)[order])


def test_a_block_that_was_interrupted_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = samples(16)
    monkeypatch.setattr(gather, "CHUNK", 64)
    with Batches(x, y, batch=4, seed=0) as undisturbed:
        whole = run(undisturbed, 0)
    chunk, main, begun = Gather.chunk, threading.current_thread(), threading.Event()

    def interrupted(self: Gather, *args: Any) -> None:
        if threading.current_thread() is main:
            begun.set()
            raise KeyboardInterrupt
        assert begun.wait(60)
        chunk(self, *args)

    with Batches(x, y, batch=4, seed=0) as batches:
        with monkeypatch.context() as patch:
            patch.setattr(Gather, "chunk", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(batches, 0)
        assert equal(run(batches, 0), whole)


def test_the_thread_ends_when_batches_are_forgotten() -> None:
    x, y = samples(20)
    batches = Batches(x, y, batch=4, seed=0, block_bytes=4 * 64)
    next(batches.epoch(0))
    assert threads()
    del batches
    gc.collect()
    assert not threads()


def test_the_thread_ends_on_an_exception() -> None:
    x, y = samples(20)
    batches = Batches(x, y, batch=4, seed=0)

    def fail() -> None:
        with batches:
            for _ in batches.epoch(0):
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert not threads()
    with pytest.raises(ValueError, match="closed"):
        next(batches.epoch(0))


def test_nothing_is_prepared_after_the_last_epoch() -> None:
    x, y = samples(20)
    with Batches(x, y, batch=4, seed=0, epochs=2) as batches:
        run(batches, 0)
        run(batches, 1)
        for thread in threads():
            thread.join(10)
        assert not threads()
        with pytest.raises(ValueError, match="2 epochs"):
            run(batches, 2)


@pytest.mark.parametrize(("x", "y", "batch"), [((3, 2), 4, 1), ((4, 2), 4, 0), ((0, 2), 0, 1)])
def test_what_does_not_fit_is_refused(x: tuple[int, int], y: int, batch: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        Batches(np.zeros(x, dtype=np.float32), np.zeros(y, dtype=np.int64), batch=batch, seed=0)
