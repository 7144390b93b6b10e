"""The shapes that docs/ref-json.md gives, and where a value is not of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.e2e.docs_console import DOCS, blocks

SHAPES = {
    block.heading.removeprefix("laminar "): json.loads(block.text) for block in blocks(DOCS / "ref-json.md") if block.language == "json"
}


def differences(value: Any, shape: Any, at: str = "") -> Iterator[str]:
    """Where a value is not of the shape."""
    if isinstance(shape, dict) and set(shape) == {"NAME"}:
        if not isinstance(value, dict):
            yield f"{at}: {value!r} is no table"
        else:
            for name, inner in value.items():
                yield from differences(inner, shape["NAME"], f"{at}.{name}")
    elif isinstance(shape, dict):
        if not isinstance(value, dict) or set(value) != set(shape):
            yield f"{at}: has {sorted(value) if isinstance(value, dict) else value!r}, expected {sorted(shape)}"
        else:
            for name, inner in value.items():
                yield from differences(inner, shape[name], f"{at}.{name}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{at}: {value!r} is no list"
        else:
            for i, inner in enumerate(value):
                yield from differences(inner, shape[0], f"{at}[{i}]")
    elif not any(is_a(value, word) for word in re.split(r" or (?!false)", shape)):
        yield f"{at}: {value!r} is not {shape}"


def is_a(value: Any, word: str) -> bool:
    kinds: dict[str, bool] = {
        "text": isinstance(value, str),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "true or false": isinstance(value, bool),
        "null": value is None,
        "anything": True,
    }
    return kinds[word]
