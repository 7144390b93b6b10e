"""Too large: runs whose tasks need more memory than the owner allows. The node asks for no more of them, also after a reboot."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final, final

import msgspec

from laminar.core import atomic

MOST: Final = 64  # runs that are remembered; as many as a request may name


@final
class TooLarge:
    def __init__(self, home: Path, memory: int | None) -> None:
        self._path, self._memory = home / "too_large.json", memory or 0
        self._found: dict[str, int] = {}  # run: bytes that were not enough
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])

    def note(self, run: str) -> None:
        self._found.pop(run, None)
        self._found[run] = self._memory
        self._found = dict(list(self._found.items())[-MOST:])
        atomic.write_bytes(self._path, msgspec.json.encode(self._found))

    @property
    def runs(self) -> list[str]:
        """Whoever allows more now tries them again."""
        return [run for run, memory in self._found.items() if not memory or 0 < self._memory <= memory]
