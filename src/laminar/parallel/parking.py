"""Parking: a process sleeps until a word of shared memory changes, and whoever changes it wakes it up: futex(2).

Short sleeps in a loop are no substitute. A core that sleeps for microseconds counts as busy, and Linux does not let it take over a process
that waits for another core: two workers beside a foreign process, or by bad luck on one core, then stay as they are for many steps.

The word behind a counter says whether somebody sleeps on it, so that whoever counts on calls the system only then.
"""

from __future__ import annotations

import ctypes
import time
from typing import Final

from laminar.core.futex import ALL, WAIT, WAKE
from laminar.core.futex import futex as _futex

NAP: Final = 30e-6  # seconds, where there is no futex
LONGEST: Final = 3_000_000  # nanoseconds: everybody is called off without a wake, and one in a billion may be missed (see `count_to`)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def count_to(words: memoryview[int], place: int, count: int) -> None:
    """The word becomes `count`, and whoever sleeps on it wakes up.

    A processor may read the second word before the first is seen by others, and so miss somebody who falls asleep in that very moment:
    who sleeps looks again after a while.
    """
    words[place] = count
    if words[place + 1]:
        words[place + 1] = 0
        if _futex is not None:
            _futex(_address(words, place), WAKE, ALL, None)


def park(words: memoryview[int], place: int, seen: int) -> None:
    """Sleep while the word is what was seen; not for ever, so look whether there is a reason to go on sleeping."""
    if _futex is None:
        time.sleep(NAP)
        return
    words[place + 1] = 1
    _futex(_address(words, place), WAIT, seen & 0xFFFFFFFF, ctypes.byref(_Time(0, LONGEST)))


def _address(words: memoryview[int], place: int) -> int:
    return ctypes.addressof(ctypes.c_uint64.from_buffer(words, 8 * place))
