"""What can be known of an image file: how large it is, whether it is grey, why it cannot be read. No Pillow until one is looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from laminar.core.errors import LaminarError


class Facts(msgspec.Struct, frozen=True, array_like=True):
    width: int
    height: int
    grey: bool
    bad: str = ""  # why it cannot be read; then the rest says nothing


def header_facts(path: Path) -> Facts:
    """From the head of the file: quick, and blind to what is broken further down."""
    from laminar.data.formats.images import read_header

    return _facts(path, read_header)


def whole_facts(path: Path) -> Facts:
    """From decoding the whole image: finds half-written files."""
    from laminar.data.formats.images import decode

    return _facts(path, decode)


def _facts(path: Path, look: Callable[[Path], tuple[int, int, bool]]) -> Facts:
    try:
        width, height, grey = look(path)
    except LaminarError as error:
        return Facts(0, 0, False, error.message)
    return Facts(width, height, grey)
