"""YAML: objects as text that is the same every time, with comments.

A key that begins with '#' is a comment: its value is written above the key that follows. YAML contains JSON, so a text that could be
taken for anything else is written as JSON writes it; there is nothing else to know of YAML, and no library is needed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from typing import Any, Final

Object = dict[str, Any]

_WIDTH: Final = 110
_PLAIN: Final = re.compile(r"[A-Za-z/][-A-Za-z0-9_./]*(?: [-A-Za-z0-9_./]+)*", re.A)
_OTHER_THINGS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "none"})


def documents(header: Iterable[str], objects: Iterable[Object]) -> str:
    """A file of several objects below a comment."""
    return (
        "\n".join(f"# {line}".rstrip() for line in header) + "\n" + "".join("---\n" + "\n".join(_table(one, 0)) + "\n" for one in objects)
    )


def without_comments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_comments(inner) for key, inner in value.items() if not key.startswith("#")}
    return [without_comments(inner) for inner in value] if isinstance(value, list) else value


def _table(table: Object, indent: int) -> list[str]:
    lines: list[str] = []
    for key, value in table.items():
        if key.startswith("#"):
            lines += [f"{' ' * indent}# {line}" for line in textwrap.wrap(value, _WIDTH - indent)]
        else:
            lines += _entry(f"{' ' * indent}{_text(key)}:", value, indent)
    return lines


def _entry(start: str, value: Any, indent: int) -> list[str]:
    if isinstance(value, dict) and value:
        return [start, *_table(value, indent + 2)]
    if isinstance(value, list) and value:
        return [start, *(line for inner in value for line in _item(inner, indent + 2))]
    return [f"{start} {_scalar(value)}"]


def _item(value: Any, indent: int) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [f"{' ' * indent}- {_scalar(value)}"]
    lines = _table(value, indent + 2)
    first = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
    above = [line[2:] for line in lines[:first]]  # comments stand above the dash
    return [*above, f"{' ' * indent}- {lines[first].lstrip()}", *lines[first + 1 :]]


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _OTHER_THINGS:
        return value
    return json.dumps(value)
