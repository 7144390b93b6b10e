"""Threads that help. They look out for work for a while before they sleep, because to wake one up takes longer than many a job; short jobs
are for those that are awake.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Final

from laminar.core import futex
from laminar.kernels.compile.board import CPUS, MOST, Board, Status, text
from laminar.kernels.compile.host import linked, object_code
from laminar.kernels.compile.interrupts import heard

WATCH: Final = 4096  # looks before a helper sleeps; some hundred microseconds
LEAST: Final = 4e-6  # seconds that a job takes the caller alone: less is never shared
ALONE: Final = 100e-6  # less is shared with helpers that are awake, but none is woken up for it
NEAR: Final = 500e-6  # seconds between two such jobs that are a reason to wake helpers up for the next one
MISSED: Final = 4  # jobs in a row that nobody joined
SETTLED: Final = 2e-3  # seconds before helpers are moved again
STALLED: Final = 1e-3  # seconds above what a short job takes alone: a helper has lost its processor in the midst of it
RESTS: Final = (20e-3, 640e-3)  # seconds in which short jobs are not shared after that: at first, and at most


class Pool:
    """One for the process. A job at a time: who comes meanwhile works alone."""

    def __init__(self) -> None:
        self._library, found = linked(object_code(text()), "pool", "serve", "lead", "ring")
        self._serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(found["serve"])
        self._ring = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(found["ring"])
        self.lead = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(found["lead"])
        self._memory = ctypes.create_string_buffer(ctypes.sizeof(Board) + 64)
        self.place = -(-ctypes.addressof(self._memory) // 64) * 64
        self._board = Board.from_address(self.place)
        self._listen()
        self._wake = threading.Semaphore(0)  # where there is no futex
        self._helpers = 0
        self._change = threading.Lock()
        self._last = self.rests = 0.0  # when the last short job came that found nobody, and until when such are not shared
        self._rest = RESTS[0]
        self._threads: list[int] = []  # of helpers, as the system has them
        self._missed, self._moved = 0, 0.0  # jobs in a row that nobody joined who was awake, and when somebody was moved for it

    def missed(self) -> None:
        """Nobody joined who was awake, or in vain: helpers may be on the caller's processor, where they wait until it is free."""
        self._missed += 1
        now = time.perf_counter()
        if self._missed >= MISSED and now - self._moved > SETTLED:
            self._missed, self._moved = 0, now
            self._move(back=True)

    def helped(self) -> None:
        self._missed = 0

    def nobody(self, helpers: int) -> None:
        """Was awake for a short job. Those that come so soon again are a reason to wake somebody up for the next."""
        now = time.perf_counter()
        near, self._last = now - self._last < NEAR, now
        if near:
            self.rouse(helpers)

    def failures(self, threads: int) -> list[Status]:
        """Of a job that failed; others may come then."""
        found = [Status.from_buffer_copy(self._board.status[one]) for one in range(threads) if self._board.status[one].kind]
        ctypes.memset(self.place + Board.status.offset, 0, Board.status.size)
        self._listen()
        self._board.busy = 0
        return found

    def _listen(self) -> None:
        """Whoever hears that the job is to end tells the others."""
        self._board.stop = 0
        for status in self._board.status:
            heard(status, self.place + Board.stop.offset)

    def learn(self, lost: float) -> None:
        """How much longer a short job took than it would have taken alone. Where others want the processors, a helper may lose its own in
        the midst of a chunk, and the caller would wait for it again and again."""
        if lost > STALLED:
            self.rests, self._rest = time.perf_counter() + self._rest, min(2 * self._rest, RESTS[1])
        else:
            self._rest = max(0.99 * self._rest, RESTS[0])

    def rouse(self, helpers: int) -> None:
        """Let there be so many that are awake, or will be in a moment."""
        while self._helpers < min(helpers, MOST - 1):
            self._helpers += 1
            given = self._board.posted, _processors()
            threading.Thread(target=self._help, args=given, name="laminar kernel helper", daemon=True).start()
        if self._board.asleep:
            with self._change:
                self._move(back=False)
                called = self._ring(self.place, helpers)
            for _ in range(0 if futex.NUMBER else called):
                self._wake.release()

    def _help(self, seen: int, processors: tuple[set[int], set[int]]) -> None:
        self._threads.append(threading.get_native_id())
        for some in reversed(processors if processors[1] else ()):
            os.sched_setaffinity(0, some)
        while True:
            seen = self._serve(self.place, seen, WATCH)  # comes back only where it cannot sleep there
            with self._change:
                sleep = self._board.posted == seen
                self._board.asleep += sleep
            if sleep:
                self._wake.acquire()

    def _move(self, *, back: bool) -> None:
        """Helpers go where the caller is not: the system likes to wake a thread up on the processor of the one who wakes it, where it
        waits until that is free. `back`: they may go anywhere from there, now and not when they wake up; beside other load they have to."""
        allowed, where = _processors()
        if not where:
            return
        mask = sum(1 << one for one in allowed).to_bytes(CPUS // 8, "little")
        ctypes.memmove(self.place + Board.allowed.offset, mask, len(mask))
        for thread in self._threads:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, where)
                if back or not futex.NUMBER:
                    os.sched_setaffinity(thread, allowed)


def _processors() -> tuple[set[int], set[int]]:
    """Those of this process, and the same but for the own one; none, if there are no others or that cannot be told."""
    if not hasattr(os, "sched_setaffinity"):
        return set(), set()
    own, allowed = _own_processor(), os.sched_getaffinity(0)
    return allowed, allowed - {own} if own in allowed and max(allowed) < CPUS else set()


def _own_processor() -> int:
    """Of this thread; -1 if that cannot be told."""
    look = getattr(_C, "sched_getcpu", None)
    return int(look()) if look is not None else -1


_C: Final = ctypes.CDLL(None) if os.name == "posix" else None
_made: Final[list[Pool]] = []
_making: Final = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_made.clear)  # threads do not survive it


def pool() -> Pool:
    """That of this process."""
    if not _made:
        with _making:
            if not _made:
                _made.append(Pool())
    return _made[0]
