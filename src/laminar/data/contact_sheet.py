"""Contact sheets: some samples of every class in one picture, training on the left, test on the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from laminar.core import atomic
from laminar.data.dataset import Array

_GAP, _LEAST, _MOST = 4, 32, 160
_INK, _PAPER = (30, 30, 30), (250, 250, 250)


def write_sheet(out: Path, names: Sequence[str], shown: dict[str, list[list[Array]]]) -> None:
    """`shown`: side -> class -> samples (C, H, W), bytes or numbers; sides from left to right."""
    tiles = {side: [[tile_of(sample) for sample in row] for row in rows] for side, rows in shown.items()}
    edge = next(tile.size for rows in tiles.values() for row in rows for tile in row)
    font = ImageFont.load_default(size=13)
    left = max((math.ceil(font.getlength(name)) for name in names), default=0) + 3 * _GAP
    columns = {side: max(len(row) for row in rows) for side, rows in tiles.items()}
    width = left + sum(count * (edge[0] + _GAP) + 4 * _GAP for count in columns.values())
    top = 24
    sheet = Image.new("RGB", (width, top + len(names or [""]) * (edge[1] + _GAP) + _GAP), _PAPER)
    ink = ImageDraw.Draw(sheet)
    x = left
    for side, rows in tiles.items():
        ink.text((x, _GAP), side, fill=_INK, font=font)
        for r, row in enumerate(rows):
            for c, tile in enumerate(row):
                sheet.paste(tile, (x + c * (edge[0] + _GAP), top + r * (edge[1] + _GAP)))
        x += columns[side] * (edge[0] + _GAP) + 4 * _GAP
    for r, name in enumerate(names):
        ink.text((_GAP, top + r * (edge[1] + _GAP) + edge[1] // 2 - 8), name, fill=_INK, font=font)
    with atomic.writing(out) as temporary:
        sheet.save(temporary, format="PNG")


def tile_of(sample: Array) -> Image.Image:
    """As RGB; numbers are stretched from the sample's least to its greatest; small ones are enlarged in whole steps."""
    if sample.dtype != np.uint8:
        low, high = float(sample.min()), float(sample.max())
        sample = ((sample - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
    channels = sample.shape[0]
    grid = sample[:3] if channels >= 3 else np.repeat(sample[:1], 3, axis=0)
    image = Image.fromarray(np.ascontiguousarray(grid.transpose(1, 2, 0)))
    if min(image.size) < _LEAST:
        times = -(-_LEAST // min(image.size))
        return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    if max(image.size) > _MOST:
        image.thumbnail((_MOST, _MOST))
    return image
