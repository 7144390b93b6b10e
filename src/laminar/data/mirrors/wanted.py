"""What is wanted of mirrors: a file by its digest, and the units in which it is proved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from laminar.core.errors import LaminarError

CHUNK: Final = 1 << 20
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Wanted:
    """A file. A unit is what has a digest of its own: a chunk, or the whole file where it has none."""

    path: str  # relative, with "/", known to be safe
    sha256: str
    size: int
    chunks: tuple[str, ...] = ()  # sha256 of each CHUNK bytes, for files larger than CHUNK

    def __post_init__(self) -> None:
        right = -(-self.size // CHUNK)
        bad = next((text for text in (self.sha256, *self.chunks) if not _SHA256.match(text)), None)
        if bad is not None or self.size < 0 or (self.chunks and len(self.chunks) != right):
            why = f"{bad!r} is no sha256" if bad is not None else f"{len(self.chunks)} chunk digests for {self.size:,} bytes, not {right}"
            raise LaminarError("L111", f"{self.path}: {why}", hint="make the index anew with `laminar data index FOLDER`")

    @property
    def unit(self) -> int:
        """Bytes of every unit but the last."""
        return CHUNK if self.chunks else max(self.size, 1)

    @property
    def units(self) -> int:
        return len(self.chunks) or 1

    def start(self, unit: int) -> int:
        """Where a unit begins; that of `units` is the end of the file."""
        return min(unit * self.unit, self.size)

    def length(self, unit: int) -> int:
        return self.start(unit + 1) - self.start(unit)

    def digest(self, unit: int) -> str:
        return self.chunks[unit] if self.chunks else self.sha256
