"""Names: the valid forms of digests, runs, stacks and tags, as types that msgspec checks while it decodes.

Records may come from strangers, and their digests and runs become paths, their names refs and lines in a terminal. So an invalid value is
refused when it is read, and `Layout` refuses it again before it makes a path.
Patterns end in \\Z, because $ accepts a trailing line feed.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

from laminar.core.printable import HIDDEN

LONGEST: Final = 200
"""Characters of a name: with `.json`, and as the name of a temporary file, it is shorter than the 255 bytes that file systems take."""

_DIGEST: Final = r"\A[0-9a-f]{64}\Z"
_RUN: Final = rf"\A(?:[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}})?\Z"
_PART: Final = rf"\A(?!\.{{1,2}}\Z)[^/{HIDDEN}]{{1,{LONGEST}}}\Z"
_LINE: Final = rf"\A[^{HIDDEN}]{{0,{LONGEST}}}\Z"

Digest = Annotated[str, Meta(pattern=_DIGEST)]
"""A sha256 in lower case: of an object, a layer, a key."""
Run = Annotated[str, Meta(pattern=_RUN)]
"""A run's folder. Empty: a layer that was imported has none."""
Part = Annotated[str, Meta(pattern=_PART)]
"""The name of a stack or of a layer, one half of a ref."""
Line = Annotated[str, Meta(pattern=_LINE)]
"""A word or two, for a terminal."""
Moment = Annotated[float, Meta(ge=0, le=1e11)]
"""Seconds since 1970, until a year that every calendar knows."""

_digest: Final = re.compile(_DIGEST).match
_run: Final = re.compile(_RUN).match
_part: Final = re.compile(_PART).match


def is_digest(text: str) -> bool:
    return _digest(text) is not None


def is_run(text: str) -> bool:
    return _run(text) is not None and text != ""


def is_ref(text: str) -> bool:
    """`stack/layer`, both halves without anything that a terminal would obey."""
    return text.count("/") == 1 and all(map(_part, text.split("/")))


def is_tag(text: str) -> bool:
    """Any name that cannot be taken for something else: for a way back (~), a pin (@), a remote (#) or a path that begins at the root."""
    halves = text.split("/")
    return text != "" and len(text) <= LONGEST and not any(sign in text for sign in "~@#") and all(map(_part, halves))
