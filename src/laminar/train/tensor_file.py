"""Tensor files: safetensors, written and read one tensor at a time. The library has all of a file in memory twice when it writes one.

The format (huggingface.co/docs/safetensors): the length of a header, the header in JSON with shapes and places, then the tensors' bytes
without gaps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, final

import torch
from torch import Tensor

_NAMES: Final = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_DTYPES: Final = {name: dtype for dtype, name in _NAMES.items()}
ALIGNED: Final = 8  # bytes, at which the tensors begin


class Later(NamedTuple):
    """A tensor that is put together when its turn has come."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    get: Callable[[], Tensor]


def in_order(tensors: Mapping[str, Tensor | Later]) -> list[tuple[str, Tensor | Later]]:
    """As they are written: those of wide numbers first, so that each begins at a multiple of its numbers' width."""
    return sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize)


def write(file: IO[bytes], tensors: Mapping[str, Tensor | Later], metadata: Mapping[str, str]) -> tuple[str, int]:
    """The sha256 of what was written, and its size."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in in_order(tensors):
        begin, end = end, end + prod(tensor.shape) * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    sha256 = hashlib.sha256()

    def put(data: bytes | memoryview[int]) -> None:
        sha256.update(data)
        file.write(data)

    put(len(text).to_bytes(8, "little"))
    put(text)
    for _, tensor in in_order(tensors):
        plain = (tensor.get() if isinstance(tensor, Later) else tensor).detach().contiguous().reshape(-1)
        if plain.numel():
            put(_bytes(plain))
    return sha256.hexdigest(), 8 + len(text) + end


def _bytes(flat: Tensor) -> memoryview[int]:
    found: memoryview[int] = flat.view(torch.uint8).numpy().data
    return found


@final
class Stored(Mapping[str, Tensor]):
    """The tensors of a file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        self.metadata: dict[str, str] = header.pop("__metadata__", {})
        self._begin, self._entries = 8 + size, header

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        found = torch.empty(entry["shape"], dtype=_DTYPES[entry["dtype"]])
        if found.numel():
            with open(self._path, "rb") as file:
                file.seek(self._begin + entry["data_offsets"][0])
                if file.readinto(_bytes(found.view(-1))) != found.nbytes:
                    raise EOFError(f"{self._path} ends before its tensor '{name}' does")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
