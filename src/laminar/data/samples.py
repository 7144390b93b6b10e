"""Sample digests: what names a sample, so that features kept for it are found again in a grown or reordered data set."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from laminar.core import digest
from laminar.data.dataset import Array
from laminar.data.room import row_slices


def sample_digests(x: Array) -> NDArray[np.uint8]:
    """(N, 16): a 128-bit digest of every sample's dtype, shape and bytes; the same in whatever data set the sample stands."""
    little = x.dtype.newbyteorder("<")
    kind = hashlib.sha256(digest.canonical([little.str, list(x.shape[1:])])).digest()[:16]
    out = bytearray(16 * len(x))
    for part in row_slices(x) if x[:1].size else ():  # a mapped array is never in memory as a whole
        some = np.ascontiguousarray(x[part], dtype=little)
        for i, row in enumerate(some.reshape(len(some), -1).view(np.uint8), start=part.start):
            out[16 * i : 16 * i + 16] = hashlib.blake2b(row.data, digest_size=16, person=kind).digest()
    return np.frombuffer(out, dtype=np.uint8).reshape(-1, 16)
