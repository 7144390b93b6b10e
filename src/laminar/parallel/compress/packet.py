"""Packet: a compressed gradient as it goes over a socket, into shared memory or a file: one run of bytes, header first.

     bytes   little-endian
     0..3    "LGP1"
     4       form: 1 dense, 2 int8, 3 sparse, 4 low rank
     5       how positions are coded (sparse; indices.py)
     6       how values are coded: 1 float16, 2 float32
     7       0
     8..11   fingerprint of the layout
    12..19   values of the dense gradient
    20..27   count: values in the packet; block of int8; rank of low rank
    28..31   scale, float32: values are multiplied by it
    32..     body

Whatever comes in may be hostile: the header is checked here, and the body by the form's own decoder before it touches anything.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.parallel.compress.layout import Layout

Buffer = bytes | bytearray | memoryview
Floats = NDArray[np.float32] | NDArray[np.float16]

MAGIC: Final = b"LGP1"
LARGEST: Final = float(np.finfo(np.float32).max)
_HEADER: Final = struct.Struct("<4sBBBBIQQf")
HEADER_BYTES: Final = _HEADER.size
_CHUNK: Final = 1 << 16
_PIECE: Final = 8192


class BadPacket(ValueError):
    """Bytes that are not a packet for this gradient; says why."""


class Form(IntEnum):
    DENSE = 1
    INT8 = 2
    SPARSE = 3
    LOW_RANK = 4


class Coding(IntEnum):
    """How values are written."""

    FLOAT16 = 1
    FLOAT32 = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("<f2" if self is Coding.FLOAT16 else "<f4")


CODINGS: Final = {"float16": Coding.FLOAT16, "float32": Coding.FLOAT32}


@dataclass(frozen=True)
class Packet:
    """`data` is everything that is sent."""

    data: memoryview
    form: Form
    index: int
    values: Coding
    fingerprint: int
    numel: int
    count: int
    scale: float

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @property
    def body(self) -> memoryview:
        return self.data[HEADER_BYTES:]

    @classmethod
    def write(
        cls,
        layout: Layout,
        form: Form,
        body: Sequence[NDArray[Any]],
        *,
        count: int,
        values: Coding = Coding.FLOAT32,
        index: int = 0,
        scale: float = 1.0,
    ) -> Packet:
        """A new packet with the bytes of `body`, one array after the other."""
        data = np.empty(HEADER_BYTES + sum(array.nbytes for array in body), dtype=np.uint8)
        _HEADER.pack_into(data.data, 0, MAGIC, form, index, values, 0, layout.fingerprint, layout.numel, count, scale)
        at = HEADER_BYTES
        for array in body:
            data[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
            at += array.nbytes
        return cls(data.data, form, index, values, layout.fingerprint, layout.numel, count, scale)

    @classmethod
    def parse(cls, data: Buffer) -> Packet:
        """The packet in `data`, which is not copied; BadPacket if the header makes no sense."""
        view = memoryview(data)
        if not view.c_contiguous:
            raise BadPacket("the bytes are not in one run")
        view = view.cast("B")
        if view.nbytes < HEADER_BYTES:
            raise BadPacket(f"{view.nbytes} bytes, but the header alone has {HEADER_BYTES}")
        magic, form, index, values, zero, fingerprint, numel, count, scale = _HEADER.unpack_from(view)
        if magic != MAGIC:
            raise BadPacket(f"begins with {magic!r}, not {MAGIC!r}")
        if form not in Form.__members__.values() or values not in Coding.__members__.values() or zero != 0:
            raise BadPacket(f"form {form}, coding {values}, {zero}: not known here")
        if not (math.isfinite(scale) and scale > 0):
            raise BadPacket(f"the scale is {scale}")
        return cls(view, Form(form), index, Coding(values), fingerprint, numel, count, scale)

    def expect(self, layout: Layout, form: Form) -> None:
        """BadPacket unless it is of this form, for this layout."""
        if self.form is not form:
            raise BadPacket(f"the form is {self.form.name.lower()}, but {form.name.lower()} was expected")
        if self.numel != layout.numel or self.fingerprint != layout.fingerprint:
            raise BadPacket(
                f"it is for {self.numel} values of layout {self.fingerprint:08x}, not {layout.numel} of {layout.fingerprint:08x}"
            )

    def expect_values(self, wanted: Coding) -> None:
        if self.values is not wanted:
            raise BadPacket(f"the values are {self.values.name.lower()}, but {wanted.name.lower()} was expected")

    def expect_bytes(self, wanted: int) -> None:
        if self.body.nbytes != wanted:
            raise BadPacket(f"the body has {self.body.nbytes} bytes, but {wanted} belong to its header")

    def array(self, dtype: np.dtype[Any] | str, at: int, count: int) -> NDArray[Any]:
        """`count` numbers of the body, from byte `at`. Read-only where the bytes are."""
        if not count:
            return np.empty(0, dtype=dtype)
        found = np.frombuffer(self.body, dtype=dtype, count=count, offset=at)
        if not found.flags.aligned:  # a packet may lie anywhere in a message; each look at such numbers costs as much as a copy, or more
            found = np.frombuffer(self.body[at : at + found.nbytes].tobytes(), dtype=dtype)
        return found


def refuse_not_finite(values: NDArray[Any], scale: float) -> None:
    """BadPacket if a value is NaN or infinite, or becomes so when it is multiplied by the scale."""
    if not (_bound(values) * scale <= LARGEST or peak(values) * scale <= LARGEST):
        raise BadPacket("it has values that are not finite")


def _bound(values: NDArray[Any]) -> float:
    """No magnitude is larger; infinite or NaN where that is not known. A tenth of the time of `peak`: a sum of squares is finite only if
    all values are. In pieces for which no BLAS starts threads."""
    flat = values.reshape(-1)
    if flat.dtype != np.float32:
        return math.inf
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # then it is infinite or NaN, which is what is asked for
        for at in range(0, len(flat), _PIECE):
            part = flat[at : at + _PIECE]
            total += float(np.dot(part, part))
    return math.sqrt(total) if total >= 0 else math.nan


def peak(values: NDArray[Any]) -> float:
    """The largest magnitude; infinite or NaN if a value is.

    Without its sign a float is the larger, the larger its bits are as an integer, and comparing integers is several times faster.
    In chunks: for a large array a temporary as large costs more than the comparing.
    """
    flat = values.reshape(-1)
    bits = np.dtype(f"u{flat.itemsize}")
    magnitude = bits.type(np.iinfo(bits).max >> 1)
    room = np.empty(min(_CHUNK, len(flat)), dtype=bits)
    found = bits.type(0)
    for at in range(0, len(flat), _CHUNK):
        part = flat[at : at + _CHUNK].view(bits)
        found = max(found, np.bitwise_and(part, magnitude, out=room[: len(part)]).max())
    return float(found.view(flat.dtype))
