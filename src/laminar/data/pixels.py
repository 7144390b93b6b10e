"""Pixels in tables: rows of numbers that are images, as Kaggle publishes MNIST and its kin (`label, pixel0, pixel1, …`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from laminar.core.errors import LaminarError
from laminar.data.dataset import Array
from laminar.data.room import Room, row_slices

_PIXEL: Final = re.compile(r"pixel_?\d+|\d+x\d+", re.IGNORECASE)  # pixel0, and 1x1 as others write it


def rows_as_images(sides: Sequence[Array], shape: Sequence[int], where: str, room: Room) -> list[Array]:
    """The rows of train and test as images (N, channels, height, width), in the order of numpy.

    Bytes where every number of all sides is whole and from 0 to 255, as pixels are: then a model gets them divided by 255.
    """
    for rows in sides:
        if rows.ndim != 2 or rows.shape[1] != math.prod(shape):
            have = math.prod(rows.shape[1:])
            raise LaminarError(
                "L109",
                f"shape: {' x '.join(map(str, shape))} = {math.prod(shape):,} numbers, but a row of {where} has {have:,}",
                hint=f"shape = {fit}" if (fit := square(have)) else "shape = [channels, height, width] whose product is that number",
            )
    if all(_are_bytes(rows) for rows in sides):
        sides = [_as_bytes(rows, room) for rows in sides]
    return [rows.reshape(len(rows), *shape) for rows in sides]


def square(count: int) -> list[int] | None:
    """The shape of a square image of so many numbers, grey or in three colours; None where there is none."""
    for channels in (1, 3):
        side = math.isqrt(count // channels)
        if side > 1 and channels * side * side == count:
            return [channels, side, side]
    return None


def note_on_pixels(columns: Sequence[str], where: str) -> str:
    """What to write for a table whose columns are pixels by their names; empty for all others."""
    fit = square(len(columns))
    if fit is None or not all(_PIXEL.fullmatch(name) for name in columns):
        return ""
    return (
        f"{where}: the columns {columns[0]} to {columns[-1]} are read as {len(columns):,} plain numbers; "
        f"shape = {fit} reads them as images, which are divided by 255 and fit a convnet"
    )


def _are_bytes(rows: Array) -> bool:
    if rows.dtype == np.uint8:
        return True
    return all(bool(((part >= 0) & (part <= 255) & (part == np.floor(part))).all()) for part in (rows[some] for some in row_slices(rows)))


def _as_bytes(rows: Array, room: Room) -> Array:
    if rows.dtype == np.uint8:
        return rows
    out = room.empty(rows.shape, np.uint8)
    for some in row_slices(rows):
        out[some] = rows[some]
    return out
