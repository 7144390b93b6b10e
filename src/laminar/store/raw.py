"""Raw tensors: dtype, shape and bytes, and the one file form they have.

A tensor object is a safetensors file with the single key "t" whose header is a function of dtype and shape alone; so its sha256 names
dtype, shape and bytes, and equal tensors have equal names. The header is padded with spaces so that the data starts at a multiple of 64:
a mapped tensor is aligned for every vector unit.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Final

KEY: Final = "t"
ALIGN: Final = 64

SIZES: Final[dict[str, int]] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "C64": 8,
}
"""Bytes an element, by safetensors' names."""


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor that no library owns: `data` is its bytes in row-major order, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    @staticmethod
    def of(dtype: str, shape: tuple[int, ...], data: bytes | bytearray | memoryview) -> RawTensor:
        """Checks that the buffer has the size that dtype and shape ask for."""
        view = memoryview(data)
        if view.ndim != 1 or view.format != "B":
            view = view.cast("B")
        if dtype not in SIZES:
            raise ValueError(f"dtype {dtype!r} is none of {', '.join(SIZES)}")
        if view.nbytes != byte_size(dtype, shape):
            raise ValueError(f"{dtype}{list(shape)} has {byte_size(dtype, shape)} bytes, but the buffer has {view.nbytes}")
        return RawTensor(dtype, tuple(shape), view)


def byte_size(dtype: str, shape: tuple[int, ...]) -> int:
    return SIZES[dtype] * math.prod(shape)


@functools.lru_cache(4096)
def header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the data in the file of a tensor: length, JSON, spaces."""
    size = byte_size(dtype, shape)
    text = json.dumps({KEY: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}}, separators=(",", ":")).encode()
    whole = -(-(8 + len(text)) // ALIGN) * ALIGN
    return (whole - 8).to_bytes(8, "little") + text.ljust(whole - 8)


def digest(tensor: RawTensor) -> str:
    """The sha256 of the tensor's file: the name of its object."""
    hasher = hashlib.sha256(header(tensor.dtype, tensor.shape))
    hasher.update(tensor.data)
    return hasher.hexdigest()
