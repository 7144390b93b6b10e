"""Sample digests: what names a sample, so that features kept for it are found again in a grown or reordered data set."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from laminar.core import digest
from laminar.data.dataset import Array


def sample_digests(x: Array) -> NDArray[np.uint8]:
    """(N, 16): a 128-bit digest of every sample's dtype, shape and bytes; the same in whatever data set the sample stands."""
    x = np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("<"))
    kind = hashlib.sha256(digest.canonical([x.dtype.str, list(x.shape[1:])])).digest()[:16]
    out = bytearray(16 * len(x))
    if x[:1].size:
        rows = x.reshape(len(x), -1).view(np.uint8)
        for i in range(len(x)):
            out[16 * i : 16 * i + 16] = hashlib.blake2b(rows[i].data, digest_size=16, person=kind).digest()
    return np.frombuffer(out, dtype=np.uint8).reshape(-1, 16)
