"""Calls that take long, or for ever, end where a signal's handler raises something, and let other threads work meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from laminar.kernels.compile.instrumented import instrumented
from laminar.kernels.compile.native import Native, Options, compiled
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

ROUNDS = 1 << 24
KERNELS = {
    "loops within loops": "float s = 0; for (int a = 0; a < m; a++) for (int b = 0; b < m; b++) s += x[i] * b; y[i] = s;",
    "a loop without an end": "float s = 0; while (x[i] < 1.0f) s += 1.0f; y[i] = s;",
    "an int that never reaches a long": "float s = 0; for (int k = 5; k < (long)m * 4096; k++) s += x[i]; y[i] = s;",
    "a loop of its own in each instance": "float s = 0; for (int a = 0; a < m; a++) s += x[i] * a; y[i] = s;",
}


class Rang(Exception):
    pass


@contextmanager
def alarm(seconds: float = 0.15) -> Iterator[None]:
    """Raises `Rang` in the main thread."""

    def ring(*_: object) -> None:
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def called(name: str, count: int = 65_536, *, lanes: bool = True, threads: int = 1) -> tuple[Native, Callable[[], None]]:
    kernel = read_kernel(f"void kernel(int i, int n, int m, const float x[n], out float y[n]) {{ {KERNELS[name]} }}")
    native = compiled(kernel, Options(lanes=lanes, cached=False))
    arrays = [np.full(count, 0.5, "float32"), np.zeros(count, "float32")]
    return native, lambda: native.run(arrays, [ROUNDS], count, threads)


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_native_code_hears_signals(name: str, lanes: bool) -> None:
    _, call = called(name, lanes=lanes)
    with pytest.raises(Rang), alarm():
        call()


def test_several_threads_end_together() -> None:
    native, call = called("loops within loops", threads=2)
    with pytest.raises(Rang), alarm():
        call()
    y = np.zeros(64, "float32")
    native.run([np.ones(64, "float32"), y], [2], 64, 2)
    assert y.tolist() == [2.0] * 64, "the next call is another one"


def test_code_that_counts_and_the_emulator_hear_signals() -> None:
    kernel = read_kernel(f"void kernel(int i, int n, int m, const float x[n], out float y[n]) {{ {KERNELS['loops within loops']} }}")
    given: tuple[Any, ...] = (kernel, {"x": np.zeros(64, "float32"), "y": np.zeros(64, "float32")}, {"m": ROUNDS}, 64)
    for run in (instrumented, emulate):
        with pytest.raises(Rang), alarm():
            run(*given)


def test_other_threads_go_on_meanwhile() -> None:
    """Also beside code that is called with the interpreter locked, as short calls of torch are."""
    import ctypes

    from laminar.kernels.compile.board import Status
    from laminar.kernels.compile.interrupts import heard, interrupt

    native, _ = called("loops within loops")
    x, y, status, looked = np.full(64, 0.5, "float32"), np.zeros(64, "float32"), heard(Status()), []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.001):
            looked.append(time.monotonic())

    holding = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3)(native.address)
    pointers, values = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data), (ctypes.c_int64 * 1)(ROUNDS)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        with pytest.raises(Rang), alarm(0.4):
            started = time.monotonic()
            if holding(0, 64, 64, pointers, values, ctypes.addressof(status)):
                interrupt(status)
    finally:
        done.set()
        thread.join()
    assert sum(one > started for one in looked) > 1
