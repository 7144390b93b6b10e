"""SVG as matplotlib writes it, made fit to stand inside a page: in the page's colours and letters, with ids of its own, and small."""

from __future__ import annotations

import re
from typing import Final

from laminar.core.page import safe
from laminar.experiments.pictures.palette import TOKENS

_NAMES: Final = {value: name for name, value in TOKENS.items()}
_COLOUR: Final = re.compile("|".join(_NAMES))
_USED: Final = re.compile(r'(?:href="#|url\(#)([^")]+)')
_ID: Final = re.compile(r' id="([^"]*)"')
_FONT: Final = re.compile(r"font-family: [^;\"]*;? ?")
_DIGITS: Final = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")  # more than can be seen
_STILL: Final = re.compile(r' transform="rotate\(-?0 [^"]*"')
_PIECE: Final = re.compile(r"<[^>]*>|\s+(?=<)")
_NOT_DRAWN: Final = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)


def for_page(text: str, prefix: str, told: str) -> str:
    """`prefix` keeps ids apart from those of other pictures; `told` is for readers who cannot see it."""
    body = text[text.index("<svg") :]
    end = body.index(">")
    box = re.search(r'viewBox="[^"]*"', body[:end])
    inside = _NOT_DRAWN.sub("", body[end + 1 :]).replace("xlink:href", "href")
    used = set(_USED.findall(inside))
    inside = _PIECE.sub(lambda piece: _tag(piece[0], prefix, used), inside)
    return f'<svg {box[0] if box else ""} role="img" aria-label="{safe(told)}">{inside.strip()}'


def _tag(tag: str, prefix: str, used: set[str]) -> str:
    """One tag, its attributes changed; text between tags is not looked at."""
    if tag.isspace():
        return ""
    tag = _ID.sub(lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", " ".join(tag.split()))
    tag = tag.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")
    tag = _COLOUR.sub(lambda found: f"var(--{_NAMES[found[0]]})", tag)
    tag = _STILL.sub("", _FONT.sub("", tag))
    return _DIGITS.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag)


def clean(text: str, longest: int = 40) -> str:
    """Text for a picture: one line, nothing that does not print, no longer than it may be."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "-"
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
