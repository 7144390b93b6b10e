"""Locate: the line of laminar.toml on which a setting stands, for error messages.

TOML parsers forget positions. This walks the text once: headers set the table, `key =` lines the key; a key inside an inline
table is searched from the line its outermost key stands on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str | int, ...]


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """1-based line of the setting at `path` (such as ("layer", 1, "train", "lr")), or of the nearest table around it."""
    lines = text.splitlines()
    places = _places(lines)
    wanted = tuple(path)
    for length in range(len(wanted), 0, -1):
        if wanted[:length] in places:
            line = places[wanted[:length]]
            return _inside(lines, line, wanted[length:])
    return None


def _places(lines: list[str]) -> dict[Path, int]:
    places: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(lines, 1):
        if header := _HEADER.match(line):
            table = ()
            parts = [p.strip("\"'") for p in _PART.findall(header[2])]
            for i, part in enumerate(parts):
                table = (*table, part)
                last = i == len(parts) - 1
                if last and header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
                places.setdefault(table, number)
            places.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table
            for part in _PART.findall(key[1]):
                path = (*path, part.strip("\"'"))
                places.setdefault(path, number)
    return places


def _inside(lines: list[str], line: int, rest: Path) -> int:
    """Follow `rest` through an inline table or array that starts on `line`; stop where the trail is lost."""
    for part in rest:
        if isinstance(part, int):
            continue
        pattern = re.compile(rf"""(?:^|[\s{{,."']){re.escape(part)}["']?\s*=""")
        for number in range(line, len(lines) + 1):
            if number > line and (_HEADER.match(lines[number - 1]) or (_KEY.match(lines[number - 1]) and "{" not in lines[line - 1])):
                break
            if pattern.search(lines[number - 1]):
                line = number
                break
    return line
