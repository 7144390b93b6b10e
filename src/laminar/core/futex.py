"""futex(2): to sleep until a word of memory changes, and to wake up who sleeps on it; where the system has it."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Final

WAIT, WAKE, ALL = 0, 1, (1 << 31) - 1
PRIVATE: Final = 128  # for threads of one process
_NUMBERS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

NUMBER: Final = _NUMBERS.get(platform.machine(), 0) if sys.platform == "linux" and sys.byteorder == "little" else 0
"""Of the system call; 0: there is none."""


def _system_call() -> Callable[[int, int, int, object], object] | None:
    if not NUMBER:
        return None
    call = ctypes.CDLL(None).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    return lambda address, operation, value, until: call(NUMBER, address, operation, value, until, None, 0)


futex: Final = _system_call()
"""Of an address, an operation, a value and a time: None, or it is looked at again in any case."""
