"""Kernels of a node: files that its owner has put into a folder. The server is told their digests, and never sends a text.

What a task's graph names is looked for in the folder when the task is done, and digested before it is used (stack/kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from laminar.core.errors import LaminarError
from laminar.kernels.files import usable

MOST: Final = 256  # that may be announced


@final
class Kernels:
    def __init__(self, folder: Path | None, tell: Callable[[str], None]) -> None:
        """Raises L008 (no such folder), L011 (kernels need an extra)."""
        self.folder, self._tell = folder, tell
        self.digests: tuple[str, ...] = self._look()

    def look_again(self) -> None:
        """At the folder, which has changed."""
        try:
            self.digests = self._look()
        except LaminarError as error:
            self._tell(error.message)
            self.digests = ()

    def _look(self) -> tuple[str, ...]:
        if self.folder is None:
            return ()
        good, bad = usable(self.folder)
        for said in bad:
            self._tell(said)
        found = dict.fromkeys(one.name.sha256 for one in good)
        if len(found) > MOST:
            self._tell(f"{len(found)} kernels in {self.folder}: {MOST} of them are announced")
        return tuple(found)[:MOST]
