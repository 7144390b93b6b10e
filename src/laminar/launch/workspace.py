"""Workspace: an agent's folder, in which the processes on its machine find project and store, and write what the chief is to keep.

It is filled from a list of files with digests; what is there already is not sent again. One folder of it, the run's, is followed: whatever
changes there is told. Files are either replaced as a whole (checkpoints) or grow (events).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from laminar.core import digest
from laminar.launch.messages import Changed, Removed

CHUNK: Final = 1 << 20  # bytes of a file in one message
FIRST, LAST = "events.jsonl", "checkpoint.json"  # a checkpoint counts the events before it, and is one when the pointer names it

GROWING: Final = "events"  # events.jsonl, and TensorBoard's events.out.…


class BadPath(ValueError):
    """A path that leads out of its folder."""


def inside(folder: Path, path: str) -> Path:
    """The file that a message means. BadPath if it lies outside, or is none that may be sent."""
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or any(part in ("..", "") or "\\" in part or "\0" in part for part in parts):
        raise BadPath(f"{path!r} is no path inside a folder")
    return folder.joinpath(*parts)


@dataclass(frozen=True)
class _Known:
    file: int  # inode: a file that was replaced is another one, mostly
    size: int
    changed: int
    told: bool  # was it we who told of it? What was shipped may be cut before it grows, so it is told as a whole first


@final
class Workspace:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._has: dict[str, str] = {}  # digests of what was shipped
        self._waiting: dict[str, str] = {}
        self._borrowed: list[Path] = []  # links
        self._followed: Path | None = None
        self._known: dict[str, _Known] = {}

    # Filling

    def expect(self, files: Sequence[tuple[str, str, int]]) -> list[str]:
        """What must be sent so that it has these files. Others are removed."""
        wanted = {path: sha for path, sha, _ in files}
        for path in [path for path in self._has if wanted.get(path) != self._has[path]]:
            inside(self.root, path).unlink(missing_ok=True)
            del self._has[path]
        if self._followed is not None:  # what a run wrote here is the chief's now, and comes back with the next shipment
            for file in self._files(self._followed):
                path = file.relative_to(self.root).as_posix()
                if self._has.get(path) is None or not file.exists() or digest.of_file(file) != self._has[path]:
                    file.unlink(missing_ok=True)
                    self._has.pop(path, None)
            self._followed = None
        self._waiting = {path: sha for path, sha in wanted.items() if path not in self._has}
        return list(self._waiting)

    def borrow(self, lent: Sequence[tuple[str, str]]) -> None:
        """Have files of another folder of this machine, until the next time. Whoever writes to one of them makes a copy first."""
        for link in self._borrowed:
            if link.is_symlink():  # else it has been replaced, and whoever needs it looks at what it is
                link.unlink()
        self._borrowed = [inside(self.root, path) for path, _ in lent]
        for link, (_, where) in zip(self._borrowed, lent, strict=True):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(where)

    def receive(self, path: str, at: int, data: memoryview, *, last: bool) -> bool:
        """Part of a file that was wanted. True when all have come. BadPath and ValueError (not what was announced) are the chief's."""
        file = inside(self.root, path)
        part = file.with_name(f".{file.name}.part")
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "r+b" if at else "wb") as out:
            out.seek(at)
            out.write(data)
        if last:
            if digest.of_file(part) != self._waiting[path]:
                raise ValueError(f"{path} is not what was announced")
            os.replace(part, file)
            self._has[path] = self._waiting.pop(path)
        return not self._waiting

    # Following

    def follow(self, folder: str) -> None:
        if self._followed == inside(self.root, folder):
            return  # for another process
        self._followed = inside(self.root, folder)
        self._followed.mkdir(parents=True, exist_ok=True)
        self._known = {}
        for file in self._files(self._followed):
            about = file.stat()
            self._known[self._name(file)] = _Known(about.st_ino, about.st_size, about.st_mtime_ns, told=False)

    def changes(self) -> Iterator[tuple[Changed | Removed, bytes]]:
        """Since the last time, in an order in which the chief's copy makes sense at every moment."""
        if self._followed is None:
            return
        found = {self._name(file): file for file in self._files(self._followed)}
        for name, file in sorted(found.items(), key=lambda item: (item[1].name == LAST, item[1].name != FIRST, item[0])):
            with contextlib.suppress(FileNotFoundError):  # replaced meanwhile: told the next time
                yield from self._told(name, file)
        for name in [name for name in self._known if name not in found]:
            del self._known[name]
            yield Removed(path=name), b""

    def _told(self, name: str, file: Path) -> Iterator[tuple[Changed, bytes]]:
        before = self._known.get(name)
        with open(file, "rb") as stream:
            about = os.fstat(stream.fileno())
            now = _Known(about.st_ino, about.st_size, about.st_mtime_ns, told=True)
            if before is not None and (before.file, before.size, before.changed) == (now.file, now.size, now.changed):
                return
            # Only histories are appended to. A file that is replaced twice between two looks may have its first number again.
            appended = file.name.startswith(GROWING) and before is not None and before.told
            grows = appended and before is not None and before.file == now.file and now.size >= before.size
            at = before.size if grows and before is not None else 0
            stream.seek(at)
            while True:
                data = stream.read(min(CHUNK, now.size - at))
                yield Changed(path=name, at=at, size=now.size, whole=not grows), data
                at += len(data)
                if at >= now.size or not data:
                    break
        self._known[name] = now

    def _name(self, file: Path) -> str:
        assert self._followed is not None
        return file.relative_to(self._followed).as_posix()

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        return [Path(at, name) for at, _, names in os.walk(folder) for name in names if not name.startswith(".")]
