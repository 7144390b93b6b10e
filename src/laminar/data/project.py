"""Running a project's own code: its modules are found, read afresh and forgotten again, and what they read is written down.

Two projects may both have a `data.py`, and a file may have changed since the last call. So while the project's code runs its
folder comes first, its modules replace others of the same name, and afterwards everything is as it was.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, final

_LOCK = threading.RLock()  # sys.modules and sys.path belong to the whole process


@final
class _Fresh(importlib.machinery.SourceFileLoader):
    """Always compiles the source: bytecode is trusted by size and whole seconds of mtime, and two edits fit into one."""

    def path_stats(self, path: str | os.PathLike[str]) -> Any:  # noqa: ARG002
        raise OSError("no bytecode, please")


@final
class _ProjectFinder(MetaPathFinder):
    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        for folder in [self._root] if path is None else path:
            if folder != self._root and not folder.startswith(self._root + os.sep):
                continue
            spec = importlib.machinery.FileFinder(folder, (_Fresh, importlib.machinery.SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:  # a folder without __init__.py is left to Python's own finder
                return spec
        return None


@contextlib.contextmanager
def project_code(root: Path) -> Iterator[None]:
    """Within the block the modules under `root` can be imported, as they are on disk now."""
    folder = str(root.resolve())
    finder = _ProjectFinder(folder)
    with _LOCK:
        own = _own_names(root)
        aside = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in own}
        before = list(sys.path)
        sys.path.insert(0, folder)
        sys.meta_path.insert(0, finder)
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            sys.path[:] = before
            for name in [name for name in sys.modules if name.partition(".")[0] in own]:
                del sys.modules[name]
            sys.modules.update(aside)


def _own_names(root: Path) -> set[str]:
    """Top-level names that the project defines; the standard library's stay Python's once they are imported."""
    names = set()
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                names.add(entry.name[:-3])
            elif entry.name.isidentifier() and entry.is_dir():
                names.add(entry.name)
    return names - sys.stdlib_module_names - {"laminar"}


@final
class OpenedFiles:
    """What a piece of code looked at: files opened for reading, folders listed. In this process, by any thread.

    What C libraries open by themselves, and other processes, are not seen.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._skip = _own_places()

    @property
    def files(self) -> list[str]:
        return sorted(self._files)

    @property
    def folders(self) -> list[str]:
        return sorted(self._folders)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if not isinstance(path, str | bytes | os.PathLike) or flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY:
                return
            text = os.path.abspath(os.fsdecode(path))
            if not text.startswith(self._skip) and "__pycache__" not in text and not text.endswith((".py", ".pyc", ".so")):
                self._files.add(text)
        elif event in ("os.listdir", "os.scandir"):
            (path,) = args
            if path is None or isinstance(path, str | bytes | os.PathLike):
                text = os.path.abspath(os.fsdecode(path) if path is not None else ".")
                if not text.startswith(self._skip) and "__pycache__" not in text:
                    self._folders.add(text)
        elif event == "sqlite3.connect" and isinstance(args[0], str | bytes | os.PathLike):
            self._files.add(os.path.abspath(os.fsdecode(args[0])))


def _own_places() -> tuple[str, ...]:
    """Folders of Python itself and of the operating system: what lies there is not the project's data."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    found |= {os.path.realpath(path) for path in found}
    return (*(path.rstrip(os.sep) + os.sep for path in found if len(path) > 1), "/proc/", "/sys/", "/dev/")


_listeners: list[OpenedFiles] = []
_hooked = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    for listener in _listeners:
        listener.hear(event, args)


@contextlib.contextmanager
def recording_opened_files() -> Iterator[OpenedFiles]:
    global _hooked
    if not _hooked:  # an audit hook can never be taken back, so there is one, and it costs nothing while nobody listens
        sys.addaudithook(_hook)
        _hooked = True
    listener = OpenedFiles()
    _listeners.append(listener)
    try:
        yield listener
    finally:
        _listeners.remove(listener)
