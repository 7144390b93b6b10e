"""The idx format (of the MNIST family): a magic number, the dimensions, the values; plain or gzipped."""

from __future__ import annotations

import hashlib
import zlib
from math import prod
from pathlib import Path

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_HINT = "the file is damaged or incomplete: fetch or write it again"


def read_idx(path: Path) -> tuple[Array, str]:
    """The array, and the sha256 of the file's content once unzipped."""
    data, broken = _unzipped(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        found = f"it begins with {bytes(data[:4]).hex(' ')}" if data else "it is empty"
        raise LaminarError("L102", f"{path} is not an idx file: {broken or found}; expected 00 00 08 01 or the like", hint=_HINT)
    dtype, rank = np.dtype(_TYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise LaminarError("L102", f"{path} ends inside its header: {len(data)} bytes, expected {start} or more", hint=_HINT)
    shape = [int(n) for n in np.frombuffer(data, dtype=">u4", count=rank, offset=4)]
    expected = start + prod(shape) * dtype.itemsize
    if len(data) != expected or broken:
        wrong = "has bytes left over" if len(data) > expected else "is damaged" if "error" in broken.lower() else "is truncated"
        unzipped = " unzipped" if path.suffix == ".gz" else ""
        raise LaminarError(
            "L102",
            f"{path} {wrong}: {len(data):,} bytes{unzipped}, expected {expected:,} for shape {tuple(shape)}{broken and f' ({broken})'}",
            hint=_HINT,
        )
    array = np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)
    return array, hashlib.sha256(data).hexdigest()


def _unzipped(path: Path) -> tuple[bytearray, str]:
    """All the bytes that can be had, and what went wrong after them."""
    data = bytearray()
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"\x1f\x8b":
                file.seek(0)
                data += file.read()
                return data, ""
            file.seek(0)
            # Not the gzip module: on a broken file it drops what it had of the last megabyte.
            stream = zlib.decompressobj(wbits=31)
            while chunk := stream.unused_data or file.read(1 << 16):
                if stream.eof:
                    stream = zlib.decompressobj(wbits=31)
                data += stream.decompress(chunk)
        return data, "" if stream.eof else "the gzip stream ends early"
    except zlib.error as error:
        return data, str(error)
    except OSError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error
