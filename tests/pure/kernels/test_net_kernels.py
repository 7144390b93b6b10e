"""Fixed seeds of the net of kernels: native code between guard pages against the emulator, and verdicts against what happens."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("pycparser")

from tests.nets import kernels
from tests.nets._guarded import Guarded
from tests.nets._warm_child import WarmChild

SEEDS, GROUP = 140, 20


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    kernels.close()


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_generated_kernels_hold_what_is_proved_of_them(first: int) -> None:
    words = Counter(kernels.check(seed) for seed in range(first, first + GROUP))
    assert words["native"] > 0 and words["L703"] > 0
    assert sum(count for word, count in words.items() if word.startswith("refused")) < GROUP // 4


def test_a_case_that_fails_or_kills_the_child_is_told() -> None:
    child = WarmChild("tests.nets._warm_child")
    assert child.ask(7) == 7
    with pytest.raises(AssertionError, match="zero"):
        child.ask(0)
    with pytest.raises(AssertionError, match="killed by SIGSEGV"):
        child.ask(-signal.SIGSEGV)
    assert child.ask(8) == 8  # by another one
    child.close()


@pytest.mark.parametrize("at_end", [False, True])
def test_an_access_beside_an_array_is_seen(at_end: bool) -> None:
    guarded = Guarded(np.arange(5, dtype="int32"), at_end=at_end)
    assert guarded.whole and guarded.array.tolist() == [0, 1, 2, 3, 4]
    beside = np.lib.stride_tricks.as_strided(guarded.array[1:], (7,), (-4 if at_end else 4,))
    beside[5] = 1
    assert not guarded.whole
