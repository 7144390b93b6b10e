"""Draw the images that the stack is trained on: sheets of 160x120 pixels with strokes, rings or dots strewn at any angle."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image, ImageDraw


def sheet(kind: str, seed: int) -> Image.Image:
    dice = random.Random(f"{kind} {seed}")
    image = Image.new("L", (160, 120), 40)
    ink = ImageDraw.Draw(image)
    for _ in range(60):
        x, y, light = dice.randrange(160), dice.randrange(120), dice.randint(180, 250)
        if kind == "strokes":
            ink.line((x, y, x + dice.randint(-14, 14), y + dice.randint(-14, 14)), fill=light, width=2)
        elif kind == "rings":
            ink.ellipse((x - 7, y - 7, x + 7, y + 7), outline=light, width=2)
        else:
            ink.ellipse((x - 2, y - 2, x + 2, y + 2), fill=light)
    return image


for kind in ("dots", "rings", "strokes"):
    folder = Path("images") / kind
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(6):
        sheet(kind, number).save(folder / f"{number}.png")
