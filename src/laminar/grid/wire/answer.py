"""Answer: the frame in which a node sends what a task came to. One run of bytes:

    "LGA1"   length of the head, 4 bytes little-endian
    head     JSON (Head)
    packet   the change of the parameters, compressed (parallel/compress/packet.py)
    buffers  float64, where the model has any
    sketch   float32 (sketch.py), of the change before it was compressed; of sparse packets only

Whatever comes in may be hostile: sizes are checked against each other here, numbers in trust/admission.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from laminar.grid.wire.messages import Count, Message, Seconds, Tested
from laminar.grid.wire.sketch import LARGEST_SIZE

MAGIC: Final = b"LGA1"
_PREFIX: Final = struct.Struct("<4sI")
_LARGEST_HEAD: Final = 4096
Buffer = bytes | bytearray | memoryview


class BadAnswer(ValueError):
    """Bytes that are no answer; says why."""


class Head(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    result: int
    version: int  # that the work began from
    packet: Count  # bytes
    buffers: Count  # bytes
    samples: Count  # trained on
    steps: Count
    loss: float  # mean over the steps
    seconds: Seconds  # of computing
    fresh: bool = False  # the node's residual began anew with this answer
    threads: Annotated[int, Meta(ge=1, le=4096)] = 1
    tested: Tested | None = None  # where the run's data has a test sample for each node
    sketch: Annotated[int, Meta(ge=0, le=4 * LARGEST_SIZE)] = 0  # bytes; written by `write`


_HEAD: Final = msgspec.json.Decoder(Head)


@dataclass(frozen=True)
class Answer:
    head: Head
    packet: memoryview
    buffers: NDArray[np.float64]
    sketch: NDArray[np.float32]


def write(head: Head, packet: Buffer, buffers: NDArray[np.float64], sketch: NDArray[np.float32]) -> bytes:
    text = msgspec.json.encode(msgspec.structs.replace(head, sketch=sketch.nbytes))
    return b"".join([_PREFIX.pack(MAGIC, len(text)), text, packet, buffers.tobytes(), sketch.tobytes()])


def parse(data: Buffer) -> Answer:
    """BadAnswer unless every size fits."""
    view = memoryview(data).cast("B")
    if view.nbytes < _PREFIX.size:
        raise BadAnswer(f"{view.nbytes} bytes are no answer")
    magic, length = _PREFIX.unpack_from(view)
    if magic != MAGIC or length > _LARGEST_HEAD:
        raise BadAnswer(f"it begins with {magic!r} and a head of {length} bytes")
    start = _PREFIX.size + length
    try:
        head = _HEAD.decode(view[_PREFIX.size : start])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"its head cannot be read: {error}") from error
    buffers_at, sketch_at = start + head.packet, start + head.packet + head.buffers
    if view.nbytes != sketch_at + head.sketch or head.buffers % 8 or head.sketch % 4:
        raise BadAnswer(f"it has {view.nbytes} bytes, but its head speaks of {sketch_at + head.sketch}")
    return Answer(
        head,
        view[start:buffers_at],
        np.frombuffer(view[buffers_at:sketch_at], dtype="<f8"),
        np.frombuffer(view[sketch_at:], dtype="<f4"),
    )
