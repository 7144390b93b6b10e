"""A stroke font: every glyph is a few lines on a grid of 7 columns and 9 rows.

A point is two digits, column (0-6) and row (0-8, downwards); strokes are separated by "|"; "~" makes a stroke round.
"""

from __future__ import annotations

from typing import Final

DIGITS: Final = {
    "0": "~30 00 08 68 60 30",
    "1": "12 30 38",
    "2": "~02 00 60 63 08|08 68",
    "3": "~01 00 60 64 24|~24 64 68 08 06",
    "4": "48 40 05 65",
    "5": "60 00 04|~04 63 68 08 06",
    "6": "~50 00 08 68 64 04 06",
    "7": "00 60 28",
    "8": "~30 00 04 64 60 30|~34 04 08 68 64 34",
    "9": "~18 68 60 00 04 64 62",
}
LETTERS: Final = {
    "A": "08 30 68|15 55",
    "B": "00 08|~00 60 64 04|~04 64 68 08",
    "C": "~62 60 00 08 68 66",
    "D": "00 08|~00 60 68 08",
    "E": "60 00 08 68|04 44",
    "F": "60 00 08|04 44",
    "G": "~62 60 00 08 68 65|65 35",
    "H": "00 08|60 68|04 64",
    "I": "30 38|10 50|18 58",
    "J": "20 60|40 46|~46 48 08 05",
    "K": "00 08|60 04 68",
    "L": "00 08 68",
    "M": "08 00 34 60 68",
    "N": "08 00 68 60",
    "O": "~30 00 08 68 60 30",
    "P": "08 00|~00 60 64 04",
    "Q": "~30 00 08 68 60 30|45 68",
    "R": "08 00|~00 60 64 04|34 68",
    "S": "~61 60 00 04 64 68 08 07",
    "T": "00 60|30 38",
    "U": "00 05|~05 08 68 65|65 60",
    "V": "00 38 60",
    "W": "00 18 33 58 60",
    "X": "00 68|60 08",
    "Y": "00 34 60|34 38",
    "Z": "00 60 08 68",
}
SHAPES: Final = {
    "arrow": "04 64|42 64 46",
    "circle": "~31 01 07 67 61 31",
    "cross": "01 67|61 07",
    "diamond": "30 64 38 04 30",
    "heart": "38 03|~03 00 30 32|~32 30 60 63|63 38",
    "hexagon": "10 50 64 58 18 04 10",
    "plus": "31 37|04 64",
    "square": "01 61 67 07 01",
    "star": "30 58 03 63 18 30",
    "triangle": "31 67 07 31",
}
DOMAINS: Final = {"digits": DIGITS, "letters": LETTERS, "shapes": SHAPES}


def strokes(glyph: str) -> list[tuple[bool, list[tuple[int, int]]]]:
    """(round?, points) of every stroke."""
    return [(text.startswith("~"), [(int(point[0]), int(point[1])) for point in text.lstrip("~").split()]) for text in glyph.split("|")]
