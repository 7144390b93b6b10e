"""Mapping: a file as copy-on-write memory that keeps no file descriptor.

Python's mmap keeps a descriptor open for each map, and a model of a thousand tensors would meet the limit of open files. The C call does
not need it. Where the C library cannot be reached, Python's mmap serves.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from typing import Final

import numpy as np

from laminar.core.places import read_into

SMALL: Final = 64 << 10
"""Files up to this size are read: cheaper than a map."""

_FAILED: Final = ctypes.c_void_p(-1).value


def _libc() -> tuple[Callable[..., int | None], Callable[..., int]] | None:
    if sys.platform not in ("linux", "darwin") or ctypes.sizeof(ctypes.c_void_p) < 8:
        return None
    try:
        lib = ctypes.CDLL(None, use_errno=True)
        lib.mmap.restype = ctypes.c_void_p
        lib.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
        lib.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        return lib.mmap, lib.munmap
    except (OSError, AttributeError):
        return None


_C: Final = _libc()


class _Mapped:
    """Unmaps when nobody refers to it any more. (weakref.finalize does the same at ten times the cost.)"""

    __slots__ = ("_address", "_size", "_unmap")

    def __init__(self, address: int, size: int, unmap: Callable[..., int]) -> None:
        self._address, self._size, self._unmap = address, size, unmap

    def __del__(self) -> None:
        self._unmap(self._address, self._size)


def private(fd: int, size: int) -> memoryview:
    """The first `size` bytes of an open file as writable memory; writes never reach the file. `fd` may be closed afterwards.

    The memory lives as long as the view or anything made from it (slices, arrays).
    """
    if size <= SMALL:
        small = bytearray(size)
        done = 0
        while done < size:
            got = read_into(fd, memoryview(small)[done:], done)
            if got == 0:
                raise OSError(f"the file ended after {done} of {size} bytes")
            done += got
        return memoryview(small)
    if _C is None:
        return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_COPY))
    map_, unmap = _C
    address = map_(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, fd, 0)
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap of {size} bytes failed: {os.strerror(number)}")
    memory = (ctypes.c_ubyte * size).from_address(address)
    memory.owner = _Mapped(address, size, unmap)  # type: ignore[attr-defined]  # goes when the last view of the memory has gone
    return np.frombuffer(memoryview(memory), dtype=np.uint8).data  # a plain view of bytes, which ctypes' own is not
