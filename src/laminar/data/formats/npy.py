"""The npy format: a header and the values of one array. Never unpickled."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import IO

from numpy.lib import format as header

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.formats.streams import fill
from laminar.data.room import Room


class PythonObjects(ValueError):
    """The array holds objects: reading them would run whatever their author likes."""


def read_npy(path: Path, room: Room) -> Array:
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            array = read_npy_stream(file, size, room)
            if file.read(1):
                raise ValueError(f"bytes are left over behind the array of shape {array.shape}")
            return array
    except PythonObjects as error:
        raise objects_refused(path) from error
    except ValueError as error:
        raise LaminarError(
            "L102", f"{path} is not a whole npy file ({size:,} bytes): {error}", hint="write it again, with numpy.save(file, array)"
        ) from error
    except OSError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error


def read_npy_stream(file: IO[bytes], length: int, room: Room) -> Array:
    """The array in the next `length` bytes at most; ValueError where they are not one."""
    version = header.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy format {version[0]}.{version[1]}, expected 1.0 or 2.0")
    shape, by_columns, dtype = (header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise PythonObjects
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize > length:
        raise ValueError(f"it is truncated: {length:,} bytes, expected {prod(shape) * dtype.itemsize:,} for shape {shape}")
    array = room.empty(shape[::-1] if by_columns else shape, dtype)
    got = fill(array, file) if array.nbytes else 0
    if got != array.nbytes:
        raise ValueError(f"it is truncated: {got:,} bytes of values, expected {array.nbytes:,} for shape {shape}")
    return array.transpose() if by_columns else array


def objects_refused(path: Path) -> LaminarError:
    return LaminarError(
        "L102",
        f"{path} holds Python objects, which are never loaded; expected arrays of numbers",
        hint="store x and y with a numeric dtype",
    )
