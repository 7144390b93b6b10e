"""The idx format (of the MNIST family): a magic number, the dimensions, the values; plain or gzipped."""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.formats.streams import MOST, Unzipped
from laminar.data.room import Room

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LONGEST = 4 + 4 * 255  # bytes of a header
_NO_FILE, _NO_ARRAY = 1 << 50, 32  # bytes, dimensions: a header that speaks of more is wrong
_HINT = "the file is damaged or incomplete: fetch or write it again"


def read_idx(path: Path, room: Room | None = None) -> tuple[Array, str]:
    """The array, and the sha256 of the file's content once unzipped."""
    content = Unzipped(path)
    parts = content.parts()
    head = b""
    for part in parts:
        head += part
        if len(head) >= _LONGEST:
            break
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
        found = f"it begins with {head[:4].hex(' ')}" if head else "it is empty"
        raise LaminarError("L102", f"{path} is not an idx file: {content.broken or found}; expected 00 00 08 01 or the like", hint=_HINT)
    dtype, rank = np.dtype(_TYPES[head[2]]), head[3]
    start = 4 + 4 * rank
    if len(head) < start:
        raise LaminarError("L102", f"{path} ends inside its header: {len(head)} bytes, expected {start} or more", hint=_HINT)
    shape = tuple(int(n) for n in np.frombuffer(head, dtype=">u4", count=rank, offset=4))
    expected = start + prod(shape) * dtype.itemsize
    if expected > _NO_FILE or rank > _NO_ARRAY:
        said = ", ".join(map(str, shape[:4])) + (", …" if rank > 4 else "")
        raise LaminarError(
            "L102",
            f"{path} is no idx file, or its header is damaged: it begins with {head[:4].hex(' ')}, which means {rank} dimensions, "
            f"and they would be ({said}), more than any file holds; the file has {path.stat().st_size:,} bytes",
            hint=_HINT,
        )
    # No room is made for what the file cannot hold, whatever its header says.
    array = (room or Room()).empty(shape, dtype) if expected <= path.stat().st_size * MOST + start else None
    flat = None if array is None else array.reshape(-1).view(np.uint8)
    found_sha = hashlib.sha256(head[:start])
    length, part = start, head[start:]
    while True:
        if flat is not None and part and length < expected:
            some = part[: expected - length]
            flat[length - start : length - start + len(some)] = np.frombuffer(some, dtype=np.uint8)
        found_sha.update(part)
        length += len(part)
        following = next(parts, None)
        if following is None:
            break
        part = following
    if array is None or length != expected or content.broken:
        wrong = "has bytes left over" if length > expected else "is damaged" if "error" in content.broken.lower() else "is truncated"
        unzipped = " unzipped" if path.suffix == ".gz" else ""
        why = f" ({content.broken})" if content.broken else ""
        raise LaminarError("L102", f"{path} {wrong}: {length:,} bytes{unzipped}, expected {expected:,} for shape {shape}{why}", hint=_HINT)
    return array, found_sha.hexdigest()
