"""Frames: a message as bytes.

4 bytes    length of the object, little-endian
8 bytes    length of the bytes; plus 2**63: they lie in the room that both sides share (room.py)
object     JSON
bytes      whatever it speaks of: a packet, parameters
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

LENGTHS: Final = struct.Struct("<IQ")
HEADER_LIMIT: Final = 1 << 20
IN_ROOM: Final = 1 << 63

Bytes = bytes | bytearray | memoryview
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Gone(Exception):
    """The other side has closed, died, or does not speak this language."""


def frame(header: Any, payload: Sequence[Bytes], room: Callable[[Sequence[memoryview], int], bool]) -> tuple[list[memoryview], int]:
    """What is to be sent, and how many bytes the message has. `room(parts, size)`: takes the bytes, if it can."""
    text = _encode(header)
    parts = [memoryview(part).cast("B") for part in payload if len(part)]
    size = sum(len(part) for part in parts)
    whole = LENGTHS.size + len(text) + size
    if size and room(parts, size):
        parts, size = [], size | IN_ROOM
    return [memoryview(LENGTHS.pack(len(text), size) + text), *parts], whole


def parsed(text: Bytes) -> dict[str, Any]:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Gone(f"a header that is no JSON object: {error}") from None
