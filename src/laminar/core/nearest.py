"""Did you mean: the nearest valid word to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(word: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """A clause for an error: `did you mean 'epochs'?`, or what there is to choose from."""
    words = sorted(set(valid))
    best = nearest(word, words)
    if best is not None:
        return f"did you mean '{best}'?"
    shown = ", ".join(words[:limit]) + (", …" if len(words) > limit else "")
    return f"known: {shown}" if words else "there are none"
