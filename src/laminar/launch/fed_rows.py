"""Rows of (features, label) as arrays. Runs where the rows are, so it says what is wrong by a value: an error would be retried.

Features are numbers, (nested) lists of them, vectors with `toArray` (Spark ML), images as bytes of a file, or rows of Spark's image schema.
"""

from __future__ import annotations

import io
import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.formats.images import read_header, read_image

PART: Final = 4 << 20  # bytes of features sent at once


@dataclass(frozen=True)
class Rows:
    """Some of a partition. `x` is uint8 or float32; `y` whole or real numbers, or words."""

    x: Array
    y: Array


@dataclass(frozen=True)
class Wrong:
    code: str
    message: str
    hint: str

    def error(self) -> LaminarError:
        return LaminarError(self.code, self.message, hint=self.hint)


class _Bad(Exception):
    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.wrong = Wrong(code, message, hint)


def pack(rows: Iterable[Any], features: Sequence[str] | None, label: str | None) -> Iterator[Rows | Wrong]:
    """Of one partition. Columns by name, or pairs where no names are given. The first row that will not do ends it."""
    names = ", ".join(features) if features else "features"
    xs: list[Array] = []
    ys: list[Any] = []
    held = 0
    try:
        for row in rows:
            given, y = ([row[name] for name in features], row[label]) if features else _pair(row)
            xs.append(_joined([as_array(value, names) for value in given]))
            ys.append(as_label(y, label or "label"))
            held += xs[-1].nbytes
            if held >= PART:
                yield _rows(xs, ys, names)
                xs, ys, held = [], [], 0
        if xs:
            yield _rows(xs, ys, names)
    except _Bad as bad:
        yield bad.wrong


def _pair(row: Any) -> tuple[list[Any], Any]:
    try:
        x, y = row
    except (TypeError, ValueError):
        raise _Bad(
            "L110", f"a row is {_shown(row)}, expected a pair of (features, label)", "rdd.map(lambda row: (features, label))"
        ) from None
    return [x], y


def as_array(value: Any, name: str) -> Array:
    """uint8 (images) or float32."""
    if value is None:
        raise _Bad("L110", f"{name}: a row has no value (null)", f"drop such rows: frame.na.drop(subset=['{name}'])")
    if isinstance(value, bytes | bytearray):
        return _image(bytes(value), name)
    if all(hasattr(value, field) for field in ("height", "width", "nChannels", "data")):
        pixels = np.frombuffer(value.data, dtype=np.uint8).reshape(value.height, value.width, value.nChannels)
        return np.ascontiguousarray(pixels[..., 2::-1].transpose(2, 0, 1) if value.nChannels > 1 else pixels.transpose(2, 0, 1))
    try:
        found = np.asarray(value.toArray() if hasattr(value, "toArray") else value)
    except ValueError:  # lists of different lengths
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "biuf":
        raise _Bad(
            "L110",
            f"{name}: a row is {_shown(value)}, expected numbers, lists of them that are all as long, a vector, or the bytes of an image",
            "turn it into numbers first (Spark ML: VectorAssembler, StringIndexer)",
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise _Bad("L110", f"{name}: a row has a value that is no finite number: {_shown(value)}", "drop or fill such rows")
    return found if found.dtype == np.uint8 else found.astype(np.float32)


def as_label(value: Any, name: str) -> Any:
    if value is None:
        raise _Bad("L110", f"{name}: a row has no label (null)", f"drop such rows: frame.na.drop(subset=['{name}'])")
    if isinstance(value, str):
        return value
    if isinstance(value, numbers.Real) and np.isfinite(float(value)):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    raise _Bad("L110", f"{name}: a label is {_shown(value)}, expected a number or the name of a class", "choose another column, or map it")


def _image(data: bytes, name: str) -> Array:
    try:
        grey = read_header(io.BytesIO(data), name)[2]
        return read_image(io.BytesIO(data), grey=grey, name=f"{name} of a row")
    except LaminarError as error:
        raise _Bad(error.code, error.message, "leave such rows out of the frame") from None


def _joined(values: Sequence[Array]) -> Array:
    """Several columns are one vector."""
    return values[0] if len(values) == 1 else np.concatenate([np.atleast_1d(value).ravel() for value in values])


def _rows(xs: list[Array], ys: list[Any], names: str) -> Rows:
    for x in xs:
        if x.shape != xs[0].shape:
            raise _Bad(*different(names, x.shape, xs[0].shape))
    kinds = {type(y) for y in ys}
    if str in kinds and len(kinds) > 1:
        raise _Bad("L110", "labels are partly words and partly numbers", "make them one or the other")
    return Rows(np.stack(xs), np.asarray(ys))


def different(names: str, *shapes: tuple[int, ...]) -> tuple[str, str, str]:
    found = " and ".join(_shape(shape) for shape in sorted(shapes))
    return "L106", f"{names}: rows of different shapes: {found}", "cut, fill up or scale them to one shape"


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a number"


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"
