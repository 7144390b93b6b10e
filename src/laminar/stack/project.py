"""Project: the stack file and the store that a command works on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from laminar.core.errors import LaminarError
from laminar.stack.read import FILE, StackFile, find, read
from laminar.store.store import Store

STORE = ".laminar"


@dataclass(frozen=True)
class Project:
    """A folder with a laminar.toml; `file` is None where there is only a store (a layer can be used without any project)."""

    root: Path
    file: StackFile | None
    store_path: Path

    def open_store(self, *, create: bool = True, damaged: bool = False) -> Store:
        """The store; where there is none and it may not be made, an error that says what is missing."""
        if not create and not os.path.lexists(self.store_path):
            raise self._nothing_here()
        return Store.open(self.store_path, create=create, damaged=damaged)

    def _nothing_here(self) -> LaminarError:
        if self.file is not None:
            return LaminarError("L306", f"nothing has been built here yet: there is no store {self.store_path}", hint="laminar build")
        if self.store_path == self.root / STORE:
            return LaminarError(
                "L001",
                f"there is neither a {FILE} nor a store ({STORE}) in {self.root}",
                hint="laminar init my-stack, or go to the folder of a stack, or laminar pull REMOTE LAYER",
            )
        return LaminarError("L306", f"there is no store {self.store_path}, which LAMINAR_STORE names", hint="unset LAMINAR_STORE")

    def look_at_store(self) -> Store:
        """For verbs that only look: a store that was not made yet is empty, and is not made by looking."""
        return Store.look(self.store_path)

    @property
    def stack(self) -> str | None:
        return self.file.spec.stack.name if self.file else None

    def need_file(self) -> StackFile:
        if self.file is None:
            raise LaminarError(
                "L001", f"no {FILE} in {self.root} or above it", hint="laminar init my-stack, or run from a folder that has one"
            )
        return self.file


def open_project(start: Path | None = None) -> Project:
    """The project around `start` (a folder, or a stack file by whatever name), or a bare store when there is none."""
    start = (start or Path.cwd()).resolve()
    if start.is_file():
        path: Path | None = start
    elif not start.exists():
        raise LaminarError("L001", f"there is no {start}", hint="laminar init my-stack")
    else:
        try:
            path = find(start)
        except LaminarError:
            path = None
    if path is None:
        return Project(start, None, _store_path(start, None))
    file = read(path)
    return Project(file.root, file, _store_path(file.root, file.spec.stack.store))


def _store_path(root: Path, setting: str | None) -> Path:
    chosen = os.environ.get("LAMINAR_STORE") or setting
    return (root / Path(chosen).expanduser()).resolve() if chosen else root / STORE
