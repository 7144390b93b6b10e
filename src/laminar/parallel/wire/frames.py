"""Frames: a message as bytes.

4 bytes    length of the object, little-endian
8 bytes    length of the bytes
object     JSON
bytes      whatever it speaks of: a packet, parameters
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

LENGTHS: Final = struct.Struct("<IQ")
HEADER_LIMIT: Final = 1 << 20

Bytes = bytes | bytearray | memoryview
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Gone(Exception):
    """The other side has closed, died, or does not speak this language."""


def frame(header: Any, payload: Sequence[Bytes]) -> list[memoryview]:
    text = _encode(header)
    parts = [memoryview(part).cast("B") for part in payload if len(part)]
    head = LENGTHS.pack(len(text), sum(len(part) for part in parts)) + text
    return [memoryview(head), *parts]


def parsed(text: Bytes) -> dict[str, Any]:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Gone(f"a header that is no JSON object: {error}") from None
