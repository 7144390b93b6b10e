"""The shelf: what a mirror shows. The files of an index and the index itself, by exact path; nothing else exists."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import final

INDEX = "index.json"


@final
class Shelf:
    def __init__(self, folder: Path, index: Path, files: Collection[str]) -> None:
        self._root = Path(os.path.realpath(folder))
        self._index = index
        self._files = frozenset(files)
        self._names: dict[str, set[str]] = {"": {INDEX}}
        for path in self._files:
            while path:
                folder_name, _, name = path.rpartition("/")
                self._names.setdefault(folder_name, set()).add(name)
                path = folder_name

    def find(self, path: str) -> Path | None:
        """The file behind a path, if it is served. A link is followed only within the folder, and looked at anew each time."""
        if path == INDEX:
            return self._index
        if path not in self._files:
            return None
        real = Path(os.path.realpath(self._root / path))
        try:
            regular = stat.S_ISREG(os.stat(real).st_mode)
        except OSError:
            return None
        return real if regular and real.is_relative_to(self._root) else None

    def names(self, folder: str) -> list[str] | None:
        """What lies in a folder; None: there is none."""
        found = self._names.get(folder)
        return None if found is None else sorted(found)
