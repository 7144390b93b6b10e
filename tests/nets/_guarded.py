"""Arrays between pages that nobody may touch, so that an access beside one ends the process; and canaries where the page is not full."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Final

import numpy as np

PAGE: Final = mmap.PAGESIZE
CANARY: Final = 0xA5
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """A copy of an array. `at_end`: its last byte is the last one of a page; else its first byte is the first one of a page."""

    def __init__(self, array: np.ndarray[Any, Any], *, at_end: bool) -> None:
        inner = -(-array.nbytes // PAGE) * PAGE
        self._memory = mmap.mmap(-1, inner + 2 * PAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._bytes[PAGE : PAGE + inner] = CANARY
        begin = PAGE + (inner - array.nbytes if at_end else 0)
        self._slack = slice(PAGE, begin) if at_end else slice(begin + array.nbytes, PAGE + inner)
        self.array = self._bytes[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self._address = self._bytes.ctypes.data
        for page in (0, PAGE + inner):
            if _libc.mprotect(self._address + page, PAGE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    @property
    def whole(self) -> bool:
        """Are the canaries alive?"""
        return bool((self._bytes[self._slack] == CANARY).all())
