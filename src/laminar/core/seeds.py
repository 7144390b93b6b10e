"""Seeds: every random stream is derived from the recipe's one seed and a label, so streams never share numbers."""

from __future__ import annotations

import hashlib


def derive(seed: int, *labels: str | int) -> int:
    """A 63-bit seed for the stream called `labels`, independent of every other label's."""
    text = "\x1f".join([str(seed), *map(str, labels)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
