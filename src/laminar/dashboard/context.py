"""Context: the project and its store, as they are at the moment of asking. Nothing of it is kept beyond the process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import final

from laminar.core.clock import SYSTEM, Clock
from laminar.core.errors import LaminarError
from laminar.dashboard.history import Histories
from laminar.dashboard.runs import RunList
from laminar.stack.project import Project, open_project
from laminar.stack.read import find
from laminar.store.layout import open_layout
from laminar.store.store import Store


@final
class Context:
    """What pages look at. `start` is the folder that `laminar ui` was started in; `grid` where a grid's server is, when it was named."""

    def __init__(self, start: Path, *, grid: str | None = None, clock: Clock = SYSTEM) -> None:
        self.start = start
        self.grid = grid
        self.clock = clock
        self.histories = Histories()
        self.runs = RunList()
        self._lock = threading.Lock()
        self._project: tuple[object, Project] | None = None
        self._stores: dict[Path, Store] = {}

    def project(self) -> Project:
        """Read anew when laminar.toml has changed. Where there is none, its `file` is None."""
        seen = self._seen()
        with self._lock:
            if self._project is None or self._project[0] != seen:
                self._project = (seen, open_project(self.start))
            return self._project[1]

    def store(self) -> Store:
        """To look at: one that was not made yet is empty. Its manifests stay in memory as long as their files are the same."""
        path = self.project().store_path
        layout = open_layout(path, create=False, look=True)  # every time: it may have been deleted, or be another one now
        with self._lock:
            return self._stores.setdefault(path, Store(layout, self.clock))

    def store_to_write(self) -> Store:
        """For rollback and tag."""
        return self.project().open_store(create=False)

    def _seen(self) -> object:
        try:
            path = self.start if self.start.is_file() else find(self.start)
            facts = os.stat(path)
        except (LaminarError, OSError):
            return None, os.environ.get("LAMINAR_STORE")
        return path, facts.st_mtime_ns, facts.st_size, facts.st_ino, os.environ.get("LAMINAR_STORE")
