"""Frames to and from the child of a foreign graph: eight bytes of length, a JSON object, and the bytes of at most one tensor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

HEAD: Final = 8
MAX_HEAD: Final = 1 << 20
DTYPES: Final[dict[str, torch.dtype]] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    )
}


class Frame(NamedTuple):
    head: dict[str, Any]
    tensor: Tensor | None


def pack(head: Mapping[str, Any], tensor: Tensor | None = None) -> list[bytes | memoryview]:
    if tensor is not None:
        tensor = tensor.detach().contiguous()
        head = {**head, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
    text = json.dumps(head).encode()
    parts: list[bytes | memoryview] = [len(text).to_bytes(HEAD, "little") + text]
    if tensor is not None and tensor.numel():
        parts.append(tensor.view(-1).view(torch.uint8).numpy().data)
    return parts


def unpack_head(data: bytes) -> int:
    """How long the JSON is; EOFError for a length that no frame has."""
    length = int.from_bytes(data, "little")
    if length > MAX_HEAD:
        raise EOFError
    return length
