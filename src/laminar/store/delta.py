"""Deltas: a tensor as the few elements in which it differs from another of the same dtype and shape.

A delta object is a safetensors file with "values" (the new elements, in order of position) and "gaps" (how many unchanged elements lie
before each, as little-endian base-128 numbers). One changed element in a hundred costs its own size and about 1.3 bytes.
Elements are compared as bits, so -0.0 differs from 0.0 and every NaN from every other.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.store.raw import ALIGN, SIZES, RawTensor

SMALLEST: Final = 64 << 10
"""Tensors below this size are kept whole: an object costs a disk block anyway."""
DEEPEST: Final = 8
"""Deltas on deltas: each one more object to read."""
SHARE: Final = 4
"""A delta is kept when it needs at most 1/SHARE of the whole tensor's bytes."""
_CHUNK: Final = 1 << 20
_SAMPLE: Final = 4096

_UINT: Final[dict[int, Any]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class BadDelta(ValueError):
    """The bytes are not a delta of this tensor."""


def elements(data: memoryview, dtype: str) -> NDArray[Any]:
    """The tensor's elements as unsigned integers of their size, without a copy."""
    return np.frombuffer(data, dtype=_UINT[SIZES[dtype]])


def changes(old: RawTensor, new: RawTensor) -> NDArray[np.int64] | None:
    """Positions at which `new` differs; None when they are too many to be worth a delta."""
    a, b = elements(old.data, old.dtype), elements(new.data, new.dtype)
    most = new.data.nbytes // SHARE // (SIZES[new.dtype] + 1)
    stride = max(1, a.size // _SAMPLE) | 1  # odd, so that it does not walk down one column of a power-of-two matrix
    if np.count_nonzero(a[::stride] != b[::stride]) > 0.5 * -(-a.size // stride) + 8:
        return None
    found: list[NDArray[np.int64]] = []
    total = 0
    for start in range(0, a.size, _CHUNK):
        x, y = a[start : start + _CHUNK], b[start : start + _CHUNK]
        here = np.flatnonzero(x != y)
        total += here.size
        if total > most:
            return None
        if here.size:
            found.append(here + start)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def encode(tensor: RawTensor, at: NDArray[np.int64]) -> bytes:
    """The delta object that sets the elements `at` (ascending) to those of `tensor`."""
    values = elements(tensor.data, tensor.dtype)[at].tobytes()
    gaps = _pack(np.diff(at, prepend=-1) - 1)
    text = json.dumps(
        {
            "values": {"dtype": tensor.dtype, "shape": [int(at.size)], "data_offsets": [0, len(values)]},
            "gaps": {"dtype": "U8", "shape": [len(gaps)], "data_offsets": [len(values), len(values) + len(gaps)]},
        },
        separators=(",", ":"),
    ).encode()
    whole = -(-(8 + len(text)) // ALIGN) * ALIGN
    return b"".join(((whole - 8).to_bytes(8, "little"), text.ljust(whole - 8), values, gaps))


def apply(step: memoryview, tensor: RawTensor) -> None:
    """Change the elements of `tensor`, whose memory must be writable, as the delta object says."""
    try:
        start = 8 + int.from_bytes(step[:8], "little")
        head = json.loads(bytes(step[8:start]))
        dtype, (count,), (_, end) = head["values"]["dtype"], head["values"]["shape"], head["values"]["data_offsets"]
        values = elements(step[start : start + end], dtype)
        gaps = _unpack(np.frombuffer(step[start + end :], dtype=np.uint8))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadDelta(f"it is not a delta: {error}") from None
    target = elements(tensor.data, tensor.dtype)
    if dtype != tensor.dtype or values.size != count or gaps.size != count:
        raise BadDelta(f"it has {values.size} values of {dtype} and {gaps.size} gaps for a tensor of {tensor.dtype}")
    at = np.cumsum(gaps + 1) - 1
    # gaps so large that their sum overflows would come back into the tensor: every position must lie behind the one before it
    if count and (gaps.min() < 0 or gaps.max() >= target.size or at[-1] >= target.size or (np.diff(at, prepend=-1) <= 0).any()):
        raise BadDelta(f"it reaches past the {target.size} elements of the tensor")
    target[at] = values


def _pack(numbers: NDArray[np.int64]) -> bytes:
    """Base-128, low digits first, the high bit says that more follow."""
    lengths = np.ones(numbers.size, np.int64)
    for digits in range(1, 9):
        lengths += numbers >= 1 << 7 * digits
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    for digit in range(int(lengths.max(initial=0))):
        has = lengths > digit
        part = (numbers[has] >> 7 * digit) & 0x7F
        out[starts[has] + digit] = part | np.where(lengths[has] > digit + 1, 0x80, 0)
    return out.tobytes()


def _unpack(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    if data.size == 0:
        return np.empty(0, np.int64)
    ends = np.flatnonzero(data < 0x80)
    if ends.size == 0 or ends[-1] != data.size - 1:
        raise ValueError("the last gap is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > 9:
        raise ValueError("a gap of more than 63 bits")
    digit = np.arange(data.size) - np.repeat(starts, lengths)
    return np.add.reduceat((data & 0x7F).astype(np.int64) << 7 * digit, starts)
