"""A call on several threads: what is worth it is shared, as far as helpers are awake. As long as nobody knows how long the work takes, the
caller begins alone.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from laminar.kernels.compile.board import ASLEEP, DONE, FAILED, UNHELPED, Job, Status
from laminar.kernels.compile.interrupts import heard
from laminar.kernels.compile.pool import ALONE, LEAST, pool

CALL: Final = 1e-6  # seconds that a call takes that does nothing
CHUNKS: Final = 16  # of each thread
HELPED: Final = 0.85  # of the time that a job takes alone: more is no help, or from somebody on the same processor
SHORTEST: Final = 2e-6  # seconds of a chunk: to claim one costs a twentieth of that


@dataclass
class Pace:
    """Seconds for an instance on one thread, as measured last; 0: nobody knows."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Shared:
    """Of a kernel: its code, the address of its `claim`, how its failures are told, and its pace."""

    call: Callable[..., int]
    claim: int
    fail: Callable[[Status], NoReturn]
    pace: Pace

    def bound(self, pointers: Any, slots: Any, unit: int, count: int, threads: int) -> Callable[[], None]:
        """To be called many times. `unit`: instances that are best run together."""
        status, call, pace, clock, helpers = heard(Status()), self.call, self.pace, time.perf_counter, pool()
        place, first = ctypes.addressof(status), _whole(-(-count // (threads * CHUNKS)), unit)
        job = Job(claim=self.claim, count=count, arrays=ctypes.addressof(pointers), values=ctypes.addressof(slots))
        job_at = ctypes.addressof(job)
        known = guess = 0.0  # pace by which the job was cut, and seconds that it takes alone

        def alone(begin: int) -> None:
            end = count if begin or pace.seconds else min(first, count)
            start = clock()
            if call(begin, end, count, pointers, slots, place):
                self.fail(status)
            pace.seconds = max(clock() - start - CALL, 1e-9) / (end - begin)
            if end < count:
                cut(end)
                share(end)

        def cut(begun: int) -> None:
            nonlocal known, guess
            known, left = pace.seconds, count - begun
            guess = known * left
            job.begun, job.part = begun, _whole(-(-left // threads), unit)
            job.chunk = first if known * first > SHORTEST else _whole(int(SHORTEST / known), unit)
            job.parts = min(threads, -(-left // job.part))
            job.awake = job.parts - 1 if guess < ALONE else 0

        def share(begun: int) -> None:
            if guess < LEAST or (guess < ALONE and clock() < helpers.rests):
                alone(begun)
                return
            if guess >= ALONE:
                helpers.rouse(threads - 1)
            start = clock()
            said = helpers.lead(helpers.place, job_at)
            if said in (DONE, UNHELPED):
                took = clock() - start
                if guess < ALONE:
                    helpers.learn(took - guess)
                if said == DONE and took < HELPED * guess:
                    helpers.helped()
                else:
                    helpers.missed()
                alone_for = took * threads if said == DONE else took
                if alone_for < guess:  # a first look may have been at cold memory, or disturbed
                    pace.seconds = alone_for / (count - begun)
            elif said == FAILED:
                self.fail(min(helpers.failures(threads), key=lambda one: (one.error[0] is None, int(one.instance))))
            else:
                if said == ASLEEP:
                    helpers.nobody(threads - 1)
                alone(begun)

        def together() -> None:
            if not pace.seconds:
                alone(0)
                return
            if known != pace.seconds or job.begun:
                cut(0)
            share(0)

        together.holds = (pointers, slots, status, job)  # type: ignore[attr-defined]  # what the code is told addresses of
        return together


def _whole(instances: int, unit: int) -> int:
    """As many, and a few more: a number of units."""
    return max(-(-instances // unit) * unit, unit)
