"""Ctrl-C and processes that are started: it waits until they are ready for it, or for ever where it is their chief's affair.

A process that is interrupted while it loads torch prints where it was, before any line of it could say that it leaves this to its chief.
So it begins with the signal blocked, from its first instruction. Unlike one that is ignored, a blocked signal is not lost: it arrives
when the process says that it can be heard, also where Ctrl-C was ignored by whoever has started all this.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MASKS: Final = hasattr(signal, "pthread_sigmask")  # not on Windows


@contextmanager
def held_back() -> Iterator[None]:
    """What is started within is not interrupted before it calls `hear`."""
    if not MASKS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear() -> None:
    """An interrupt that has waited arrives now: whoever calls this has said what is to be done then."""
    if MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
