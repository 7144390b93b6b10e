"""Image files, read through Pillow: PNG, JPEG, GIF (first frame), TIFF (first page)."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.sources.protocol import Progress

_GREY_MODES = ("1", "L", "LA", "I", "F", "I;16", "I;16B", "I;16L")
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


def read_images(paths: Sequence[Path], *, size: int | None, grey: bool, progress: Progress) -> Array:
    """(N, C, H, W) bytes. One channel when asked for, or when every image is grey; otherwise three."""
    if not paths:
        return np.empty((0, 1, 1, 1), dtype=np.uint8)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:  # Pillow decodes outside of Python's lock
        grey = grey or all(pool.map(_is_grey, paths))
        first = read_image(paths[0], size=size, grey=grey)
        out = np.empty((len(paths), *first.shape), dtype=np.uint8)

        def place(i: int) -> None:
            image = read_image(paths[i], size=size, grey=grey)
            if image.shape != first.shape:
                raise LaminarError(
                    "L106",
                    f"images of different sizes: {paths[0]} is {_size(first)}, {paths[i]} is {_size(image)}",
                    hint=f"size = {min(first.shape[1:])} crops and scales every image to one square",
                )
            out[i] = image

        for done, _ in enumerate(pool.map(place, range(len(paths)))):
            if done % 256 == 0:
                progress("reading images", done, len(paths))
    progress("reading images", len(paths), len(paths))
    return out


def read_image(path: Path, *, size: int | tuple[int, int] | None = None, grey: bool = False) -> Array:
    """(C, H, W) bytes of one image; with `size` (a side, or width and height), its centre of that form, scaled."""
    try:
        with Image.open(path) as file:
            image = _eight_bits(ImageOps.exif_transpose(file)).convert("L" if grey else "RGB")
        if size is not None:
            image = ImageOps.fit(image, (size, size) if isinstance(size, int) else size, Image.Resampling.BILINEAR)
    except _BROKEN as error:
        raise _unreadable(path, error) from error
    array = np.asarray(image)
    return array[None] if grey else array.transpose(2, 0, 1)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Sixteen-bit grey levels scaled down; Pillow's own conversion would cut them off at 255."""
    if image.mode.startswith("I;16") or image.mode == "I":
        return Image.fromarray((np.clip(np.asarray(image).astype(np.int64), 0, 65535) >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("it holds real numbers, expected whole grey levels or colours")
    return image


def _is_grey(path: Path) -> bool:
    try:
        with Image.open(path) as image:
            return image.mode in _GREY_MODES
    except _BROKEN as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> LaminarError:
    if isinstance(error, FileNotFoundError):
        return LaminarError("L101", f"{path} vanished while it was read", hint="wait until the data is complete")
    size = path.stat().st_size
    if size == 0:
        why = "it is empty (0 bytes)"
    elif isinstance(error, UnidentifiedImageError):
        why = f"its {size:,} bytes are no image of a known kind"
    else:
        why = f"{error} (the file has {size:,} bytes)"
    return LaminarError("L102", f"{path} cannot be read as an image: {why}", hint="fetch or write the file again, or remove it")


def _size(image: Array) -> str:
    return f"{image.shape[2]}x{image.shape[1]}"
