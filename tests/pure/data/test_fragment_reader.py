"""Reading fragments: in the order asked for, each image loaded once, within a budget."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.data.fragments.cut import Pixels
from laminar.data.fragments.kept import Kept
from laminar.data.fragments.reader import FragmentReader
from laminar.data.fragments.table import FragmentTable
from laminar.data.spec import FragmentSpec

SIZES = [(40, 30), (33, 50), (40, 30), (16, 16), (70, 20)]
SPEC = FragmentSpec(size=16, overlap=0.5, rotate=30)


class Images:
    """Images made of their number, and who asked for them."""

    def __init__(self, channels: int = 1) -> None:
        rng = np.random.default_rng(0)
        self.pixels = [rng.integers(0, 256, (channels, height, width), dtype=np.uint8) for width, height in SIZES]
        self.loaded: list[int] = []
        self._lock = threading.Lock()

    def load(self, image: int) -> Pixels:
        with self._lock:
            self.loaded.append(image)
        return self.pixels[image]


def reader(images: Images, *, budget: int = 0, threads: int = 2, channels: int = 1) -> FragmentReader:
    return FragmentReader(images.load, FragmentTable(SIZES, SPEC), channels, budget=budget, threads=threads)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_at_once_are_each_by_itself(channels: int, threads: int) -> None:
    images = Images(channels)
    read = reader(images, threads=threads, channels=channels, budget=1 << 20)
    index = np.random.default_rng(1).permutation(len(read))[:200]
    index[7] = index[3]
    together = read.read(index)
    assert together.shape == (200, channels, 16, 16)
    for i, number in enumerate(index):
        assert (together[i] == read[int(number)]).all()
    assert (read[-1] == read[len(read) - 1]).all()


def test_an_upright_fragment_is_a_piece_of_its_image() -> None:
    images = Images()
    read = reader(images)
    index = read.table.index_of([1, 4], [8, 54], [24, 4], [0, 0])
    assert (read.read(index)[0] == images.pixels[1][:, 24:40, 8:24]).all()
    assert (read.read(index)[1] == images.pixels[4][:, 4:20, 54:70]).all()


@pytest.mark.parametrize("threads", [1, 4])
def test_each_image_is_loaded_once_a_call(threads: int) -> None:
    images = Images()
    read = reader(images, threads=threads)
    index = np.random.default_rng(2).permutation(len(read))
    read.read(index)
    assert sorted(images.loaded) == [0, 1, 2, 3, 4]


def test_images_are_kept_up_to_the_budget() -> None:
    images = Images()
    read = reader(images, budget=40 * 30 * 2 + 256, threads=1)
    first = read.table.first
    read.read(first[[0, 2, 3]])
    read.read(first[[0, 2, 3]])
    assert images.loaded == [0, 2, 3]
    read.read(first[[0, 1, 2]])  # those that are kept are cut before image 1 drives one of them out
    assert images.loaded == [0, 2, 3, 1]


def test_without_a_budget_nothing_is_kept() -> None:
    images = Images()
    read = reader(images, budget=0)
    assert (read[5] == read[5]).all()
    assert images.loaded == [0, 0]


def test_fragments_go_into_the_memory_given() -> None:
    images = Images()
    read = reader(images)
    out = np.zeros((3, 1, 16, 16), dtype=np.uint8)
    assert read.read(np.array([5, 200, 9]), out) is out
    assert (out[1] == read[200]).all()
    for wrong in (np.zeros((2, 1, 16, 16), dtype=np.uint8), np.zeros((3, 1, 16, 16), dtype=np.float32)):
        with pytest.raises(ValueError, match="expected uint8"):
            read.read(np.array([5, 200, 9]), wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_image_that_cannot_be_loaded_is_told(threads: int) -> None:
    images = Images()
    fine = images.load

    def load(image: int) -> Pixels:
        if image == 2:
            raise LaminarError("L102", "cells/2.png cannot be read as an image")
        return fine(image)

    read = FragmentReader(load, FragmentTable(SIZES, SPEC), 1, threads=threads)
    with pytest.raises(LaminarError, match=r"cells/2\.png"):
        read.read(np.arange(len(read)))
    with pytest.raises(LaminarError, match=r"cells/2\.png"):
        read[int(read.table.first[2])]
    assert read.read(read.table.first[[0, 1]]).shape == (2, 1, 16, 16)


def test_an_image_of_another_size_is_refused() -> None:
    read = FragmentReader(lambda _: np.zeros((1, 30, 41), dtype=np.uint8), FragmentTable(SIZES, SPEC), 1)
    with pytest.raises(ValueError, match=r"image 0 has shape \(1, 30, 41\), expected \(1, 30, 40\)"):
        read[0]


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_counts_fragments_up_to_the_last(threads: int) -> None:
    told: list[tuple[str, int, int | None]] = []
    read = reader(Images(), threads=threads)
    read.read(np.arange(len(read)), progress=lambda *what: told.append(what))
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})
    assert told[-1] == ("cutting fragments", len(read), len(read))
    assert len(told) == len(SIZES)


def test_images_are_loaded_together_and_no_more_of_them_held_than_threads() -> None:
    images, together, held, most = Images(), threading.Barrier(2), 0, 0
    lock = threading.Lock()

    def gone() -> None:
        nonlocal held
        with lock:
            held -= 1

    def load(image: int) -> Pixels:
        nonlocal held, most
        if image < 4:
            together.wait(60)  # breaks, and with it the test, if images are loaded one after the other
        pixels = images.load(image).copy()
        with lock:
            held += 1
            most = max(most, held)
        weakref.finalize(pixels, gone)
        return pixels

    read = FragmentReader(load, FragmentTable(SIZES, SPEC), 1, budget=0, threads=2)
    assert (read.read(np.arange(len(read))) == reader(images, threads=1).read(np.arange(len(read)))).all()
    assert most <= 2
    assert held == 0


def test_nothing_asked_nothing_read() -> None:
    images = Images()
    assert reader(images).read(np.array([], dtype=np.int64)).shape == (0, 1, 16, 16)
    assert not images.loaded


def test_what_was_used_longest_ago_goes_first() -> None:
    kept: Kept[str, np.ndarray] = Kept(100)
    for name in "abc":
        kept.put(name, np.zeros(30, dtype=np.uint8))
    assert kept.get("a") is not None
    kept.put("d", np.zeros(30, dtype=np.uint8))
    assert [name for name in "abcd" if name in kept] == ["a", "c", "d"]
    kept.put("e", np.zeros(101, dtype=np.uint8))
    assert "e" not in kept
    assert kept.nbytes == 90
    kept.put("a", np.zeros(100, dtype=np.uint8))
    assert kept.nbytes == 100
    assert "d" not in kept
