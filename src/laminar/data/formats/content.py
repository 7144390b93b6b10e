"""The digest of arrays: names, types, shapes and values, whatever file they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from laminar.core import digest
from laminar.data.dataset import Array, Opened

CHUNK = 1 << 24


def arrays_digest(arrays: Mapping[str, Array]) -> str:
    """sha256, the same on every machine: values are taken little-endian and in C order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        little = array.dtype.newbyteorder("<")
        total.update(digest.canonical([name, little.str, list(array.shape)]))
        rows = max(1, CHUNK // max(1, array[:1].nbytes)) if array.ndim else 1
        for start in range(0, len(array) if array.ndim else 1, rows):
            part = array[start : start + rows] if array.ndim else array
            total.update(np.ascontiguousarray(part, dtype=little).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def opened_digest(opened: Opened) -> str:
    arrays = {"train.x": opened.train.x, "train.y": opened.train.y}
    if opened.test is not None:
        arrays |= {"test.x": opened.test.x, "test.y": opened.test.y}
    return arrays_digest(arrays)
