"""What a kernel's tree is, as a short text that is the same for the same tree: names of variables do not count, positions do."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from laminar.kernels.language.tree import Kernel, Object, Variable


def digest(kernel: Kernel) -> str:
    """Of parameters, body and settings. Positions count because errors name them."""
    seen: dict[Variable | Object, int] = {}
    words: list[str] = []

    def write(what: Any) -> None:
        if isinstance(what, (Variable, Object)):
            if what in seen:
                words.append(f"@{seen[what]}")
                return
            seen[what] = len(seen)
            words.append(f"{type(what).__name__} {what.type}")
            if isinstance(what, Object):
                words.append(what.memory)
                write(what.shape)
        elif isinstance(what, tuple) and not hasattr(what, "_fields"):
            words.append("(")
            for one in what:
                write(one)
            words.append(")")
        elif hasattr(what, "__dataclass_fields__"):
            words.append(type(what).__name__)
            for one in fields(what):
                write(getattr(what, one.name))
        else:
            words.append(repr(what))

    write((kernel.parameters, kernel.body, kernel.contract, kernel.assumptions))
    return hashlib.sha256(" ".join(words).encode()).hexdigest()
