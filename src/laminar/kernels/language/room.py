"""How much room local arrays take: the same limit wherever a kernel is read, emulated or compiled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from laminar.kernels.language.tree import SIZES, At, Object

MOST_LOCAL: Final = 2 << 20  # bytes of all local arrays of an instance: they are on the stack of the thread that runs


def local_bytes(objects: Iterable[Object]) -> int:
    """Of all local arrays of an instance."""
    return sum(
        math.prod(int(getattr(size, "value", 1)) for size in one.shape) * SIZES[one.type] for one in objects if one.memory == "local"
    )


def too_large(objects: Sequence[Object]) -> tuple[At, str, str] | None:
    """Where local arrays are too large together (K19), what is said of it and what to write instead."""
    total = local_bytes(objects)
    if total <= MOST_LOCAL:
        return None
    last = [one for one in objects if one.memory == "local"][-1]
    said = f"with `{last.name}` all local arrays have {total:,} bytes, {MOST_LOCAL:,} are the most"
    return last.at, said, "smaller arrays, or parameters of the kernel"
