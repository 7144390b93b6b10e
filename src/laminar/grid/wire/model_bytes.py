"""Model bytes: a version of a model on its way down, whole or as the difference to a version that the node has.

A version is one run of bytes: float32 of every trained parameter in order, then float64 of the buffers. Its sha256 is its name. On the way
it is exclusive-or'ed with the version that the node has (nothing: zeros), its bytes are sorted by their place in a word, and packed with
zstandard: parameters that did not change cost next to nothing, and signs and exponents, which change little, pack well. Exact, so that
two nodes begin from the same bits and their answers can be compared.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

import numpy as np
import zstandard
from numpy.typing import NDArray

_HEADER: Final = struct.Struct("<4sQ")
MAGIC: Final = b"LGM1"
LEVEL: Final = 1
WORD: Final = 4


class BadModel(ValueError):
    """Bytes that are not the version they should be."""


def digest(plain: bytes | memoryview) -> str:
    return hashlib.sha256(plain).hexdigest()


def pack(new: bytes | memoryview, old: bytes | memoryview | None = None) -> bytes:
    """`new`, for one who has `old`, which is as long."""
    words = _words(new)
    if old is not None:
        before = _words(old)
        if before.size != words.size:
            raise ValueError(f"versions of {before.size} and {words.size} words")
        words = words ^ before
    planes = np.ascontiguousarray(words.view(np.uint8).reshape(-1, WORD).T)
    return _HEADER.pack(MAGIC, len(new)) + zstandard.ZstdCompressor(level=LEVEL, write_checksum=False).compress(planes.data)


def unpack(data: bytes | memoryview, sha256: str, size: int, old: bytes | memoryview | None = None) -> bytes:
    """The version that is called `sha256` and has `size` bytes; BadModel if it is not."""
    view = memoryview(data)
    if view.nbytes < _HEADER.size or _HEADER.unpack_from(view) != (MAGIC, size) or size % WORD:
        raise BadModel(f"{view.nbytes} bytes that do not begin as a version of {size} bytes")
    if old is not None and len(old) != size:
        raise BadModel(f"a difference to {len(old)} bytes, but the version has {size}")
    try:
        raw = zstandard.ZstdDecompressor().decompress(view[_HEADER.size :], max_output_size=size)
    except zstandard.ZstdError as error:
        raise BadModel(str(error)) from error
    if len(raw) != size:
        raise BadModel(f"{len(raw)} bytes came out, not {size}")
    words = _joined(np.frombuffer(raw, np.uint8).reshape(WORD, -1))
    if old is not None:
        words ^= _words(old)
    plain = words.tobytes()
    found = digest(plain)
    if found != sha256:
        raise BadModel(f"its sha256 is {found[:12]}…, not {sha256[:12]}…")
    return plain


def _joined(planes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The words whose bytes these are, the lowest first. A seventh of the time of a transposition."""
    low, high = planes[1].astype("<u2"), planes[3].astype("<u2")
    for half, plane in ((low, planes[0]), (high, planes[2])):
        half <<= 8
        half |= plane
    words: NDArray[np.uint32] = high.astype("<u4")
    words <<= 16
    words |= low
    return words


def _words(plain: bytes | memoryview) -> NDArray[np.uint32]:
    return np.frombuffer(plain, dtype="<u4")
