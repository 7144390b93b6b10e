"""Printable: make strangers' text safe to show in a terminal.

A terminal obeys control characters: they move the cursor, rename the window, overwrite earlier output, or hide text. Characters that
change the direction of writing make a name look like another one. Both are shown as Python would write them: \\x1b, \\u202e.
Letters of every script stay as they are, and so do the two joiners that Persian, Indic scripts and emoji need.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = (
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # format: directions, marks nobody sees, line ends
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f"
    "\ud800-\udfff"  # halves of characters, which no terminal can be sent
)
"""The inside of a character class of regular expressions: what no name may contain and no terminal is sent."""

_HIDDEN: Final = re.compile(f"[{HIDDEN}]")
_BUT_LINES: Final = re.compile(f"(?!\n|\t|\r\n)[{HIDDEN}]")
_ESCAPED: Final = re.compile(r"(?<!\\)((?:\\\\)*+)\\(u00[01][0-9a-f]|u007f|[bf]|r(?!\\n))")
_SHORT: Final = {"b": "x08", "f": "x0c", "r": "r"}


def line(text: str) -> str:
    """On one line, whatever is in it."""
    return _HIDDEN.sub(_escaped, text)


def lines(text: str) -> str:
    """As it is laid out: ends of lines and tabs stay."""
    return _BUT_LINES.sub(_escaped, text)


def json(text: str) -> str:
    """The same JSON, laid out as it was: what is hidden stands as an escape in its strings, and a reader gets it back as it was."""
    return text if _is_plain(text) else _BUT_LINES.sub(_json_escape, text)


def shown_json(text: str) -> str:
    """JSON whose strings are to be looked at: who reads it gets the escape itself, as `lines` gives it."""
    if "\\" in text:
        text = _ESCAPED.sub(lambda match: match[1] + "\\\\" + (_SHORT.get(match[2]) or f"x{match[2][3:]}"), text)
    return text if _is_plain(text) else _BUT_LINES.sub(lambda match: "\\" + _escaped(match), text)


def _is_plain(text: str) -> bool:
    """For JSON, in which the other control characters are escapes already."""
    return text.isascii() and "\x7f" not in text


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
