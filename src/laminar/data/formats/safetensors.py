"""The safetensors format: a JSON header that says where in the file each array is. Read here, so that no whole file is mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.dataset import Array
from laminar.data.formats.streams import fill
from laminar.data.room import Room, row_slices

_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_LONGEST = 100 << 20  # bytes of a header, the limit of the format
_HINT = "the file is damaged or incomplete: fetch or write it again"


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_safetensors(path: Path, room: Room | None = None, choose: Callable[[list[str]], Iterable[str]] | None = None) -> dict[str, Array]:
    """The arrays that `choose` takes of the names there are (default: all). A list of names in the metadata is an array, too."""
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            entries, texts, start = _header(file, size)
            chosen = list(entries) + list(texts) if choose is None else list(choose(list(entries) + list(texts)))
            return {
                name: np.array(texts[name]) if name in texts else _read(file, name, entries[name], start, size, room or Room())
                for name in chosen
            }
    except (ValueError, msgspec.MsgspecError) as error:
        raise LaminarError("L102", f"{path} is not a whole safetensors file ({size:,} bytes): {error}", hint=_HINT) from error
    except OSError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error


def _header(file: IO[bytes], size: int) -> tuple[dict[str, _Entry], dict[str, list[str]], int]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(_LONGEST, size - 8):
        raise ValueError(f"its header would have {length:,} bytes" if size >= 8 else "it ends inside its header")
    raw: dict[str, Any] = msgspec.json.decode(file.read(length), type=dict[str, Any])
    about = raw.pop("__metadata__", None) or {}
    # Tensors hold no text, so the names of classes are a list in the metadata, as JSON or with commas.
    texts = {name: _names(text) for name, text in about.items() if name == "classes" and isinstance(text, str)}
    return msgspec.convert(raw, type=dict[str, _Entry]), texts, 8 + length


def _names(text: str) -> list[str]:
    if text.lstrip().startswith("["):
        return msgspec.json.decode(text, type=list[str])
    return [name.strip() for name in text.split(",")]


def _read(file: IO[bytes], name: str, entry: _Entry, start: int, size: int, room: Room) -> Array:
    if entry.dtype not in _TYPES:
        raise ValueError(f"array '{name}' is of dtype {entry.dtype}; {did_you_mean(entry.dtype, _TYPES)}")
    dtype, (first, last) = np.dtype(_TYPES[entry.dtype]), entry.data_offsets
    wanted = prod(entry.shape) * dtype.itemsize
    if min(entry.shape, default=0) < 0 or last - first != wanted or first < 0:
        raise ValueError(f"array '{name}' of shape {tuple(entry.shape)} has {last - first:,} bytes, expected {wanted:,}")
    if start + last > size:
        raise ValueError(f"it is truncated: array '{name}' ends at byte {start + last:,}")
    array = room.empty(tuple(entry.shape), dtype)
    file.seek(start + first)
    if array.nbytes and fill(array, file) != array.nbytes:
        raise ValueError(f"it is truncated inside of array '{name}'")
    return _widened(array, room) if entry.dtype == "BF16" else array


def _widened(halves: Array, room: Room) -> Array:
    """bfloat16 is the upper half of a float32."""
    out = room.empty(halves.shape, np.float32)
    rows, wide = (halves, out) if halves.ndim else (halves[None], out[None])
    for part in row_slices(rows):
        wide[part] = (rows[part].astype(np.uint32) << 16).view(np.float32)
    return out
