"""Data files: the data of a task as files of the node's home, written by the process that has the network, mapped by the one that computes.

    opened/<digest of the data's description>/train-x.npy, train-y.npy, test-x.npy, test-y.npy, classes.json

A folder is filled under another name and renamed: it is there whole or not at all. They are not flushed to the disk, because a node that
starts begins without any (home.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.lib import format as npy

from laminar.core import digest
from laminar.data.dataset import Array, Dataset, Split
from laminar.data.room import row_slices
from laminar.data.spec import DataSpec
from laminar.grid.node.limits import ROOM

KEPT: Final = 4  # data sets
KEPT_BYTES: Final = 1 << 30  # beside the newest, where the owner names no size of memory
_CLASSES: Final = "classes.json"
_ARRAYS: Final = ("train-x", "train-y", "test-x", "test-y")


def name_of(spec: DataSpec) -> str:
    """Of the folder with what `spec` describes."""
    return digest.of_json(msgspec.to_builtins(spec))


def keep(folder: Path, name: str, data: Dataset, most: int | None) -> None:
    """Write a data set. `most`: bytes that the owner lets the node use. MemoryError where it alone has more; OSError where the disk would
    be full."""
    size = _size(data)
    if most is not None and size > most:
        raise MemoryError
    make_room(folder, size, KEPT_BYTES if most is None else most)
    if shutil.disk_usage(folder).free < size + ROOM:  # with less the node would rest, and never know that it is to blame
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / name))
    part = folder / f".{name}"
    part.mkdir()
    try:
        for file, array in zip(_ARRAYS, _arrays(data), strict=True):
            _write(part / f"{file}.npy", array)
        (part / _CLASSES).write_bytes(msgspec.json.encode(data.classes))
        os.replace(part, folder / name)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def read(path: Path) -> Dataset:
    """The data set in a folder. Its arrays are mapped, and cannot be written to."""
    x, y, test_x, test_y = (np.asarray(np.load(path / f"{file}.npy", mmap_mode="r", allow_pickle=False)) for file in _ARRAYS)
    classes = msgspec.json.decode((path / _CLASSES).read_bytes(), type=tuple[str, ...] | None)
    return Dataset(Split(x, y), Split(test_x, test_y), classes)


def make_room(folder: Path, size: int, most: int) -> None:
    """Delete what was begun and never ended, and those that were used longest ago, until one of `size` bytes has room beside the rest."""
    held: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.name.startswith("."):
                shutil.rmtree(path)
            else:
                held.append((path.stat().st_mtime, sum(file.stat().st_size for file in path.iterdir()), path))
    held.sort()
    total = size + sum(bytes_ for _, bytes_, _ in held)
    for i, (_, bytes_, path) in enumerate(held):
        if len(held) - i < KEPT and total <= most:
            break
        drop(path)
        total -= bytes_


def drop(path: Path) -> None:
    """Delete a data set, whole or not at all. Windows does not let go of one that is mapped: it stays until the next time."""
    gone = path.with_name(f".{path.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.replace(path, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _arrays(data: Dataset) -> tuple[Array, ...]:
    return data.train.x, data.train.y, data.test.x, data.test.y


def _size(data: Dataset) -> int:
    return sum(array.nbytes for array in _arrays(data))


def _write(path: Path, array: Array) -> None:
    """As numpy.save, a few rows at a time: what is mapped is not copied into memory."""
    with path.open("wb") as file:
        npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape})
        for rows in row_slices(array):
            file.write(np.ascontiguousarray(array[rows]).data)
