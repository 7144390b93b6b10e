"""Run files: the chief's copy of what its agents write in the folder of a run. Only the chief writes to the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import final

from laminar.core import atomic
from laminar.launch.messages import Changed, Removed
from laminar.launch.workspace import inside


@final
class RunFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def changed(self, told: Changed, data: memoryview) -> None:
        """BadPath if it leads out of the folder: an agent may be somebody else's."""
        file = inside(self.folder, told.path)
        if file.name.startswith("."):
            raise ValueError(f"{told.path!r} is no file of a run")
        file.parent.mkdir(parents=True, exist_ok=True)
        if not told.whole:
            with open(file, "r+b") as out:
                out.seek(told.at)
                out.write(data)
                out.truncate(told.size)
            return
        part = file.with_name(f".{file.name}.part")
        with atomic.explaining_os_errors(file):
            with open(part, "r+b" if told.at else "wb") as out:
                out.seek(told.at)
                out.write(data)
                if told.at + len(data) >= told.size:
                    out.flush()
                    os.fsync(out.fileno())
            if told.at + len(data) >= told.size:
                os.replace(part, file)
                atomic.fsync_folder(file.parent)

    def removed(self, told: Removed) -> None:
        inside(self.folder, told.path).unlink(missing_ok=True)
