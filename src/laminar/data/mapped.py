"""Mapped arrays: arrays in files without a name, whose pages leave memory again after use. `Room` decides which arrays are such."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from math import prod
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from laminar.core import atomic

Array = NDArray[Any]

KEPT = 32 << 20  # bytes of a mapped array that may be in memory at once, about
_AROUND = 2 << 20  # a row that is touched brings its neighbours along: newer kernels map all of a huge page of the page cache
_ZEROS = 1 << 20


@final
class Pages:
    """The mapping below an array and all its views, and the file below that."""

    def __init__(self, file: mmap.mmap, handle: int) -> None:
        self._file, self._handle = file, handle
        self._address = np.frombuffer(file, dtype=np.uint8).ctypes.data
        self._handed = 0
        weakref.finalize(self, os.close, handle).atexit = False

    def hand_out(self, size: int) -> None:
        self._handed += size + _AROUND  # not under a lock: threads may lose a count, and the next one drops a little later
        if self._handed > KEPT:
            self.drop()

    def drop(self) -> None:
        self._handed = 0
        if hasattr(mmap, "MADV_DONTNEED"):  # the pages stay in the file, changed ones too: the mapping is shared
            self._file.madvise(mmap.MADV_DONTNEED)

    def will_need(self, part: Array) -> None:
        if hasattr(mmap, "MADV_WILLNEED") and part.nbytes:
            start = self._place(part)
            end = start + part.nbytes
            start -= start % mmap.PAGESIZE
            self._file.madvise(mmap.MADV_WILLNEED, start, end - start)

    def write(self, part: Array, value: Any) -> bool:
        """part[...] = value past the mapping, whose pages the system would have to watch one by one; False where that cannot be."""
        if not hasattr(os, "pwrite") or not part.flags.c_contiguous or part.nbytes < mmap.PAGESIZE:
            return False
        values = np.asarray(value)
        if values.shape != part.shape or values.dtype != part.dtype or not values.flags.c_contiguous:
            made = np.empty(part.shape, dtype=part.dtype)
            made[...] = value  # converts and broadcasts, or fails, as assignment does
            values = made
        left: memoryview = values.reshape(-1).view(np.uint8).data
        place = self._place(part)
        while left:
            done = os.pwrite(self._handle, left, place)
            left, place = left[done:], place + done
        return True

    def _place(self, part: Array) -> int:
        """Where in the file it begins."""
        return int(part.__array_interface__["data"][0]) - self._address


class MappedArray(np.ndarray[Any, np.dtype[Any]]):
    """An array in a file. Views are such arrays too; whatever is computed from one is a plain array."""

    pages: Pages | None

    def __array_finalize__(self, parent: Any) -> None:
        self.pages = getattr(parent, "pages", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if self.pages is None or not isinstance(found, MappedArray):
            return found
        if not isinstance(found.base, MappedArray):  # picked by an index or a mask: a copy
            self.pages.drop()
            return found.view(np.ndarray)
        self.pages.hand_out(found.nbytes)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.pages is not None and isinstance(key, int | slice):
            part = super().__getitem__(key)
            if isinstance(part, MappedArray) and self.pages.write(part, value):
                return
        super().__setitem__(key, value)
        if self.pages is not None:
            self.pages.hand_out(getattr(value, "nbytes", 0))

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        found = super().astype(*args, **kwargs)
        return found if np.may_share_memory(found, self) else found.view(np.ndarray)

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        return super().copy(*args, **kwargs).view(np.ndarray)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def pages_of(array: Any) -> Pages | None:
    """The pages below a mapped array or any view of one."""
    while isinstance(array, np.ndarray):
        pages = getattr(array, "pages", None)
        if isinstance(pages, Pages):
            return pages
        array = array.base
    return None


def map_array(shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path) -> MappedArray:
    """An array of zeros in a file in `folder`; L301 where there is no space for it."""
    size = prod(shape) * dtype.itemsize
    with atomic.explaining_os_errors(folder / "samples"):
        folder.mkdir(parents=True, exist_ok=True)
        # It has no name from the start, or loses it at once: whatever kills this process, the space is free again.
        with tempfile.TemporaryFile(dir=folder, prefix="laminar-samples-", buffering=0) as file:
            _allocate(file, size)
            mapping = mmap.mmap(file.fileno(), size)
            handle = os.dup(file.fileno())
    array = np.ndarray.__new__(MappedArray, shape, dtype=dtype, buffer=mapping)
    array.pages = Pages(mapping, handle)
    return array


def spacious_folder() -> Path:
    """For large files that live as long as a process. /tmp itself is often in memory, which would defeat the purpose."""
    given = os.environ.get("TMPDIR")
    large = Path("/var/tmp")
    return Path(given) if given else large if os.access(large, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _allocate(file: IO[bytes], size: int) -> None:
    """Every byte on the disk now: writing to a mapped file for which there is no space left would kill the process."""
    if hasattr(os, "fstatvfs"):  # a request that cannot be met would first take all that others could use
        disk = os.fstatvfs(file.fileno())
        if size > disk.f_bavail * disk.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    zeros = bytes(_ZEROS)
    for start in range(0, size, _ZEROS):
        left = memoryview(zeros)[: size - start]
        while left:
            left = left[file.write(left) :]
