"""Unpacking: the files of a tar or zip archive into a folder, all of them or none, and nothing outside of it."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from filelock import FileLock

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.data.sources.protocol import Progress


def unpack(archive: Path, target: Path, progress: Progress) -> None:
    """The archive's one top folder becomes `target`, if that is not there yet. Two processes may call this."""
    with atomic.explaining_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.unpacking.lock")):
            if target.is_dir():
                return
            half = target.with_name(f".{target.name}.unpacking")
            shutil.rmtree(half, ignore_errors=True)  # of a process that was killed
            half.mkdir()
            try:
                _extract(archive, half, progress)
                os.replace(half, target)
            except BaseException:
                shutil.rmtree(half, ignore_errors=True)
                raise
            atomic.fsync_folder(target.parent)


def refused(archive: Path, why: str) -> LaminarError:
    return LaminarError("L102", f"{archive} cannot be unpacked: {why}", hint="remove the file and fetch it again")


BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeError)
_OF_MACS = ("__MACOSX", ".DS_Store")  # what a Mac puts beside the files of a zip archive


def _extract(archive: Path, folder: Path, progress: Progress) -> None:
    size, tops = archive.stat().st_size, set[str]()
    try:
        with open(archive, "rb") as file:
            for name, content in _members(archive, file):
                parts = PurePosixPath(name).parts
                # A name like ../x or /x, or a link through which a later name leaves the folder: no archive of ours has one.
                if name.startswith("/") or ".." in parts or "\\" in name or not parts:
                    raise refused(archive, f"it holds the path '{name}', which leads out of the folder")
                if content is None:
                    continue
                tops.add(parts[0])
                if len(parts) < 2 or len(tops) > 1:
                    raise refused(archive, f"it holds '{name}' outside of one folder")
                path = folder.joinpath(*parts[1:])
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as out:
                    shutil.copyfileobj(content, out, 1 << 20)
                progress(f"unpacking {archive.name}", file.tell(), size)
    except BROKEN as error:
        raise refused(archive, f"{error or type(error).__name__} ({size:,} bytes)") from error


def _members(archive: Path, file: IO[bytes]) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and content of every member; None for a folder. A link, a device or the like is refused."""
    if archive.suffix != ".zip":
        with tarfile.open(fileobj=file, mode="r:*") as tar:
            for member in tar:
                if not member.isreg() and not member.isdir():
                    raise refused(archive, f"it holds '{member.name}', which is neither a file nor a folder")
                yield member.name, tar.extractfile(member)
        return
    with zipfile.ZipFile(file) as zipped:
        for entry in zipped.infolist():
            if any(part in _OF_MACS for part in PurePosixPath(entry.filename).parts):
                continue
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise refused(archive, f"it holds '{entry.filename}', which is neither a file nor a folder")
            if entry.is_dir():
                yield entry.filename, None
                continue
            if entry.flag_bits & 1:
                raise refused(archive, f"'{entry.filename}' is encrypted")
            with zipped.open(entry) as content:
                yield entry.filename, content
