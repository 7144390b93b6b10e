"""Columns of a table as arrays: numbers, lists of numbers of one length, images as encoded bytes; labels of any kind."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.formats.arrow import ArrowFile
from laminar.data.room import Room
from laminar.data.sources.protocol import Progress

Kind = Literal["number", "list", "image", "other"]


def kind_of(field: Any) -> Kind:
    """What a column of this type is to us."""
    import pyarrow.types as is_a

    kind = plain(field)
    if _is_number(kind):
        return "number"
    if is_a.is_struct(kind):
        return "image" if kind.get_field_index("bytes") >= 0 else "other"
    if is_a.is_binary(kind) or is_a.is_large_binary(kind):
        return "image"
    depth = 0
    while is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        kind, depth = plain(kind.value_type), depth + 1
    return "list" if depth and _is_number(kind) else "other"


def plain(kind: Any) -> Any:
    """The type below an extension: `datasets` registers some of its own where it is imported."""
    return getattr(kind, "storage_type", kind)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as is_a

    return bool(is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_boolean(kind))


def read_numbers(files: list[ArrowFile], names: list[str], room: Room) -> Array:
    """(rows, columns): uint8 where every column is, otherwise float32."""
    bytes_only = all(str(file.schema.field(name).type) == "uint8" for file in files for name in names)
    out = room.empty((_rows(files), len(names)), np.uint8 if bytes_only else np.float32)
    for start, batch, file in _batches(files, names):
        for i, name in enumerate(names):
            out[start : start + batch.num_rows, i] = _numbers(_whole(batch.column(i), name, file, start), file, name)
    return out


def read_lists(files: list[ArrowFile], name: str, room: Room) -> Array:
    """(rows, …) of a column whose rows are lists (of lists) of numbers: uint8 where the numbers are, otherwise float32."""
    out: Array | None = None
    for start, batch, file in _batches(files, [name]):
        values, shape = _flat(_whole(batch.column(0), name, file, start), file, name)
        if out is None:
            out = room.empty((_rows(files), *shape), np.uint8 if values.dtype == np.uint8 else np.float32)
        if shape != out.shape[1:]:
            raise _uneven(file, name, out.shape[1:], shape)
        out[start : start + batch.num_rows] = values.reshape(batch.num_rows, *shape)
    return np.empty((0, 1), dtype=np.float32) if out is None else out


def all_grey(files: list[ArrowFile], name: str) -> bool:
    """Whether every image of a column of encoded images is grey."""
    from laminar.data.formats.images import read_header

    return all(read_header(io.BytesIO(data), row)[2] for _, images in _encoded(files, name) for row, data in images)


def read_encoded(files: list[ArrowFile], name: str, *, size: int | None, grey: bool, room: Room, progress: Progress) -> Array:
    """(rows, C, H, W) bytes of a column of encoded images."""
    from laminar.data.formats.images import read_image

    def decoded(one: tuple[str, bytes]) -> Array:
        return read_image(io.BytesIO(one[1]), size=size, grey=grey, name=one[0])

    out: Array | None = None
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for start, images in _encoded(files, name):
            for i, image in enumerate(pool.map(decoded, images)):
                if out is None:
                    out = room.empty((_rows(files), *image.shape), np.uint8)
                if image.shape != out.shape[1:]:
                    raise LaminarError(
                        "L106",
                        f"images of different sizes: the first is {_size(out.shape[1:])}, {images[i][0]} is {_size(image.shape)}",
                        hint=f"size = {min(out.shape[2:])} crops and scales every image to one square",
                    )
                out[start + i] = image
            progress("reading images", start + len(images), _rows(files))
    return np.empty((0, 1, 1, 1), dtype=np.uint8) if out is None else out


def read_labels(files: list[ArrowFile], name: str) -> Array | tuple[Array, tuple[str, ...]]:
    """Whole or real numbers (rows,) or (rows, K); or, for text, positions in the names that follow, which are sorted."""
    import pyarrow.types as is_a

    kind = plain(files[0].schema.field(name).type)
    if is_a.is_dictionary(kind):
        kind = kind.value_type
    if is_a.is_string(kind) or is_a.is_large_string(kind):
        seen: dict[str, int] = {}
        codes = np.empty(_rows(files), dtype=np.int64)
        for start, batch, file in _batches(files, [name]):
            column = _whole(batch.column(0), name, file, start)
            words = column if is_a.is_dictionary(column.type) else column.dictionary_encode()
            here = np.array([seen.setdefault(word, len(seen)) for word in words.dictionary.to_pylist()], dtype=np.int64)
            codes[start : start + batch.num_rows] = here[words.indices.to_numpy(zero_copy_only=False)]
        names = sorted(seen)
        return np.array([names.index(word) for word in seen], dtype=np.int64)[codes], tuple(names)
    if kind_of(kind) == "list":
        return read_lists(files, name, Room())
    if not _is_number(kind):
        raise LaminarError(
            "L110",
            f"{files[0].path}: column '{name}' is of type {kind}; a label must be text, a whole number, or real numbers for regression",
            hint="choose another column: args = { label = … }",
        )
    # Copied: a column of a batch may be a view that keeps all of the batch alive.
    parts = [np.array(_whole(batch.column(0), name, file, start)) for start, batch, file in _batches(files, [name])]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _rows(files: list[ArrowFile]) -> int:
    return sum(file.rows for file in files)


def _batches(files: list[ArrowFile], names: list[str]) -> Iterator[tuple[int, Any, ArrowFile]]:
    """(number of its first row, batch, file)"""
    start = 0
    for file in files:
        for batch in file.batches(names):
            yield start, batch, file
            start += batch.num_rows
    if start != _rows(files):
        raise LaminarError("L102", f"{files[0].path} changed while it was read", hint="wait until the file is complete")


def _whole(column: Any, name: str, file: ArrowFile, start: int) -> Any:
    """The column, with nothing missing."""
    column = getattr(column, "storage", column)
    if column.null_count:
        row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise LaminarError("L110", f"{file.path}: column '{name}' has nothing in row {row}", hint="fill or remove the row")
    return column


def _numbers(column: Any, file: ArrowFile, name: str) -> Array:
    if not _is_number(column.type):
        raise LaminarError("L110", f"{file.path}: column '{name}' is of type {column.type}, expected numbers", hint="store numbers")
    found: Array = column.to_numpy(zero_copy_only=False)
    return found


def _flat(column: Any, file: ArrowFile, name: str) -> tuple[Array, tuple[int, ...]]:
    """The numbers in all the lists, one after the other, and the shape of one row."""
    import pyarrow.types as is_a

    shape: list[int] = []
    rows = len(column)
    while is_a.is_list(column.type) or is_a.is_large_list(column.type) or is_a.is_fixed_size_list(column.type):
        inner = column.flatten()
        length = len(inner) // rows if rows else 0
        sizes = column.value_lengths().to_numpy(zero_copy_only=False) if hasattr(column, "value_lengths") else np.array([length])
        if len(sizes) and (sizes != sizes[0]).any():
            raise _uneven(file, name, (int(sizes[0]),), (int(sizes[np.argmax(sizes != sizes[0])]),))
        shape.append(length)
        column, rows = _whole(inner, name, file, 0), len(inner)
    values = _numbers(column, file, name)
    return values if values.dtype == np.uint8 else values.astype(np.float32, copy=False), tuple(shape)


def _encoded(files: list[ArrowFile], name: str) -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
    """(number of the first row, [(what to call it, bytes of an image)])"""
    for start, batch, file in _batches(files, [name]):
        images = []
        for i, value in enumerate(_whole(batch.column(0), name, file, start)):
            data = value["bytes"] if hasattr(value, "keys") else value
            if not data.is_valid:
                path = value["path"].as_py() if "path" in value.keys() else None  # noqa: SIM118 - a scalar, not a dict
                raise LaminarError(
                    "L102",
                    f"{file.path}: the image of row {start + i} is not in the file" + (f", only its path {path}" if path else ""),
                    hint="write the data set with its images inside, or use folder: for images that are files",
                )
            images.append((f"{file.path}, row {start + i}", data.as_py()))
        yield start, images


def _uneven(file: ArrowFile, name: str, one: tuple[int, ...], other: tuple[int, ...]) -> LaminarError:
    return LaminarError(
        "L106", f"{file.path}: column '{name}' has lists of shape {one} and of shape {other}", hint="bring all rows to one shape"
    )


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[2]}x{shape[1]}"
