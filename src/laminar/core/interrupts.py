"""Ctrl-C: heard at once, after what is under way, or by others.

Processes that are started: it waits until they are ready for it, or for ever where it is their chief's affair.
A process that is interrupted while it loads torch prints where it was, before any line of it could say that it leaves this to its chief.
So it begins with the signal blocked, from its first instruction. Unlike one that is ignored, a blocked signal is not lost: it arrives
when the process says that it can be heard, also where Ctrl-C was ignored by whoever has started all this.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, final

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


@final
class Interrupts:
    """Turns the first Ctrl-C into a flag, so that the step can be finished and kept; the second one acts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._found: Any = None
        self._installed = False

    def __enter__(self) -> Interrupts:
        # only the main thread may set handlers, and only it is interrupted; a program that ignores Ctrl-C (nohup) goes on doing so
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._found = signal.signal(signal.SIGINT, self._on)
            self._installed = True
        return self

    def _on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._found)


@contextmanager
def afterwards() -> Iterator[None]:
    """Ctrl-C waits for what is within, where it would do harm: torch's tracer aborts the process, or takes it for a failure of the model's
    and goes on. The second one acts at once."""
    interrupts = Interrupts()
    try:
        with interrupts:
            yield
    finally:
        if interrupts.asked:
            signal.raise_signal(signal.SIGINT)  # for whoever would have heard it
