"""What a piece of code looked at while it ran: the files and folders that its result may depend on."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any, final


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
    paths = sysconfig.get_paths()  # not the prefix itself: a project may lie below it, or have its environment in its own folder
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "include", "scripts") if name in paths}
    found |= {os.path.realpath(path) for path in found}
    return (*(path.rstrip(os.sep) + os.sep for path in found if len(path) > 1), "/proc/", "/sys/", "/dev/")


_listeners: list[OpenedFiles] = []
_hooked = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _listeners:  # nobody listens, or the interpreter is ending and has already taken the list away: a hook outlives its module
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
