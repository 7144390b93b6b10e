"""The digest of arrays: names, types, shapes and values, whatever file they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from laminar.core import digest
from laminar.data.dataset import Array, Opened
from laminar.data.room import row_slices


def arrays_digest(arrays: Mapping[str, Array]) -> str:
    """sha256, the same on every machine: values are taken little-endian and in C order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        little = array.dtype.newbyteorder("<")
        total.update(digest.canonical([name, little.str, list(array.shape)]))
        rows = array if array.ndim else array[None]
        for part in row_slices(rows):
            total.update(np.ascontiguousarray(rows[part], dtype=little).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def opened_digest(opened: Opened) -> str:
    arrays = {"train.x": opened.train.x, "train.y": opened.train.y}
    if opened.test is not None:
        arrays |= {"test.x": opened.test.x, "test.y": opened.test.y}
    return arrays_digest(arrays)
