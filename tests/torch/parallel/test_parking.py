"""Parking: whoever sleeps on a word wakes up when it is counted on, and nobody sleeps for ever."""

from __future__ import annotations

import os
import threading
import time

import pytest

from laminar.parallel import parking
from laminar.parallel.meeting import STRIDE, come
from laminar.parallel.parking import count_to, park
from laminar.parallel.segment import Segment
from laminar.parallel.waited import WAITED


@pytest.fixture
def words() -> memoryview[int]:
    return Segment.create(8 * 2 * STRIDE).words(0, 2 * STRIDE)


def test_a_word_that_has_changed_already_is_not_slept_on(words: memoryview[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "LONGEST", 999_999_999)
    words[STRIDE] = 5
    began = time.monotonic()
    park(words, STRIDE, 4)
    assert time.monotonic() - began < 0.9


@pytest.mark.skipif(parking._futex is None, reason="there is no futex here: naps end by themselves")
def test_who_sleeps_is_woken_by_who_counts(words: memoryview[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "LONGEST", 999_999_999)
    took: list[float] = []

    def sleeper() -> None:
        park(words, STRIDE, 0)
        took.append(time.monotonic())

    thread = threading.Thread(target=sleeper)
    thread.start()
    while not words[STRIDE + 1]:  # until it says that it sleeps, or is about to
        os.sched_yield()
    woken = time.monotonic()
    count_to(words, STRIDE, 1)
    thread.join(10)
    assert took[0] - woken < 0.9  # less than it would have slept
    assert words[STRIDE] == 1
    assert words[STRIDE + 1] == 0


@pytest.mark.parametrize("futex", [True, False], ids=["futex", "naps"])
def test_a_word_that_nobody_counts_on_is_given_up(words: memoryview[int], monkeypatch: pytest.MonkeyPatch, *, futex: bool) -> None:
    if not futex:
        monkeypatch.setattr(parking, "_futex", None)
    before = WAITED.seconds
    assert not come(words, STRIDE, 1, timeout=0.01)
    assert WAITED.seconds - before > 0.01, "waiting is counted"
    words[0] = 1  # all are called off, without a wake
    assert come(words, STRIDE, 1, timeout=60.0)
