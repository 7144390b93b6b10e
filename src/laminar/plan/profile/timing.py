"""Timing: how long something takes, and the state in which training would do it: its threads, its kernels, nobody else's random numbers."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from laminar.train import borrowed

RESOLVED: Final = 20e-6  # seconds of one sample at least: what is shorter is done several times
FEW: Final = 3  # samples of what takes long: it varies less


@dataclass(frozen=True)
class Effort:
    """How much time is spent on a measurement."""

    least: float = 4e-3  # seconds of each operator
    rounds: int = 7  # samples of everything, at least, unless it takes too long
    longest: float = 0.3  # seconds of an operator, from which on few samples will do
    steps: float = 0.25  # seconds of each whole pass
    longest_pass: float = 2.0  # and here one will do
    lines: float = 0.03  # seconds of each size of each exchange


SHORT: Final = Effort(least=1e-4, rounds=2, steps=1e-3, lines=1e-3)  # for tests: figures, if rough ones


@dataclass(frozen=True)
class Timing:
    """Seconds: the median, and what a quarter of the samples is below and above."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        some = sorted(samples)
        return cls(statistics.median(some), some[len(some) // 4], some[(3 * len(some)) // 4], len(some))

    def less(self, seconds: float) -> Timing:
        return Timing(max(0.0, self.median - seconds), max(0.0, self.low - seconds), max(0.0, self.high - seconds), self.n)

    def to_json(self) -> list[float]:
        return [self.median, self.low, self.high, self.n]

    @classmethod
    def from_json(cls, told: Sequence[float]) -> Timing:
        return cls(told[0], told[1], told[2], int(told[3]))


def timed(function: Callable[[], Any], effort: Effort) -> Timing:
    """Of one call, warm: what comes first is not counted."""
    clock = time.perf_counter
    began = clock()
    function()
    if clock() - began < effort.longest:
        function()
    begin = clock()
    function()
    once = clock() - begin
    times = max(1, int(RESOLVED / max(once, 1e-9)))
    samples, now = list[float](), clock()
    until, late = now + effort.least, now + effort.longest
    while (len(samples) < effort.rounds and (len(samples) < FEW or clock() < late)) or clock() < until:
        begin = clock()
        for _ in range(times):
            function()
        samples.append((clock() - begin) / times)
    return Timing.of(samples)


@contextlib.contextmanager
def as_in_training(threads: int) -> Iterator[None]:
    """Everything that is changed here is as it was afterwards: threads, kernels, random streams."""
    collects = gc.isenabled()
    with borrowed.settings(threads), borrowed.seeded(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators that know no deterministic way: training will say so
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
