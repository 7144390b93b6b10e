"""Image files, read through Pillow: PNG, JPEG, GIF (first frame), TIFF (first page)."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.room import Room
from laminar.data.sources.protocol import Progress

_GREY_MODES = ("1", "L", "LA", "I", "F", "I;16", "I;16B", "I;16L")
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


def read_images(
    paths: Sequence[Path], *, size: int | None, grey: bool, room: Room, progress: Progress, names: Sequence[str] | None = None
) -> Array:
    """(N, C, H, W) bytes. One channel when asked for, or when every image is grey; otherwise three. `names` are for messages."""
    if not paths:
        return np.empty((0, 1, 1, 1), dtype=np.uint8)
    shown = [str(path) for path in paths] if names is None else names
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:  # Pillow decodes outside of Python's lock
        grey = grey or all(pool.map(lambda i: read_header(paths[i], shown[i])[2], range(len(paths))))
        first = read_image(paths[0], size=size, grey=grey, name=shown[0])
        out = room.empty((len(paths), *first.shape), np.uint8)

        def place(i: int) -> None:
            image = read_image(paths[i], size=size, grey=grey, name=shown[i])
            if image.shape != first.shape:
                raise LaminarError(
                    "L106",
                    f"images of different sizes: {shown[0]} is {_size(first)}, {shown[i]} is {_size(image)}",
                    hint=f"size = {min(first.shape[1:])} crops and scales every image to one square",
                )
            out[i : i + 1] = image

        for done, _ in enumerate(pool.map(place, range(len(paths)))):
            if done % 256 == 0:
                progress("reading images", done, len(paths))
    progress("reading images", len(paths), len(paths))
    return out


def read_image(path: Path | io.BytesIO, *, size: int | tuple[int, int] | None = None, grey: bool = False, name: str = "") -> Array:
    """(C, H, W) bytes of one image; with `size` (a side, or width and height), its centre of that form, scaled."""
    try:
        with Image.open(path) as file:
            image = _eight_bits(ImageOps.exif_transpose(file)).convert("L" if grey else "RGB")
        if size is not None:
            image = ImageOps.fit(image, (size, size) if isinstance(size, int) else size, Image.Resampling.BILINEAR)
    except _BROKEN as error:
        raise _unreadable(path, name or str(path), error) from error
    array = np.asarray(image)
    return array[None] if grey else array.transpose(2, 0, 1)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Sixteen-bit grey levels scaled down; Pillow's own conversion would cut them off at 255."""
    if image.mode.startswith("I;16") or image.mode == "I":
        return Image.fromarray((np.clip(np.asarray(image).astype(np.int64), 0, 65535) >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("it holds real numbers, expected whole grey levels or colours")
    return image


def read_header(path: Path | io.BytesIO, name: str = "") -> tuple[int, int, bool]:
    """Width, height and whether it is grey: as it would be read, so a photograph that lies on its side is counted upright."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            turned = image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
            return (height, width, image.mode in _GREY_MODES) if turned else (width, height, image.mode in _GREY_MODES)
    except _BROKEN as error:
        raise _unreadable(path, name or str(path), error) from error


def decode(path: Path) -> tuple[int, int, bool]:
    """The same, once the whole image has been read without an error."""
    grey = read_header(path)[2]
    image = read_image(path, grey=grey)
    return image.shape[2], image.shape[1], grey


def _unreadable(path: Path | io.BytesIO, name: str, error: BaseException) -> LaminarError:
    if isinstance(error, FileNotFoundError):
        return LaminarError("L101", f"{name} vanished while it was read", hint="wait until the data is complete")
    size = path.getbuffer().nbytes if isinstance(path, io.BytesIO) else path.stat().st_size
    if size == 0:
        why = "it is empty (0 bytes)"
    elif isinstance(error, UnidentifiedImageError):
        why = f"its {size:,} bytes are no image of a known kind"
    else:
        why = f"{error} (the file has {size:,} bytes)"
    return LaminarError(
        "L102",
        f"{name} cannot be read as an image: {why}",
        hint="fetch or write the file again, or remove it; skip_bad = true (or --skip-bad) leaves out what cannot be read",
    )


def _size(image: Array) -> str:
    return f"{image.shape[2]}x{image.shape[1]}"
