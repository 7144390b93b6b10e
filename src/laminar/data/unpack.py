"""Unpacking: the files of a tar archive into a folder, all of them or none, and nothing outside of it."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

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


BROKEN = (tarfile.TarError, zlib.error, EOFError, UnicodeError)


def _extract(archive: Path, folder: Path, progress: Progress) -> None:
    size, tops = archive.stat().st_size, set[str]()
    try:
        with open(archive, "rb") as file, tarfile.open(fileobj=file, mode="r:*") as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts
                # A name like ../x or /x, or a link through which a later name leaves the folder: no archive of ours has one.
                if member.name.startswith("/") or ".." in parts or "\\" in member.name or not parts:
                    raise refused(archive, f"it holds the path '{member.name}', which leads out of the folder")
                if member.isdir():
                    continue
                if not member.isreg():
                    raise refused(archive, f"it holds '{member.name}', which is neither a file nor a folder")
                tops.add(parts[0])
                if len(parts) < 2 or len(tops) > 1:
                    raise refused(archive, f"it holds '{member.name}' outside of one folder")
                content = tar.extractfile(member)
                path = folder.joinpath(*parts[1:])
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as out:
                    if content is not None:
                        shutil.copyfileobj(content, out, 1 << 20)
                progress(f"unpacking {archive.name}", file.tell(), size)
    except BROKEN as error:
        raise refused(archive, f"{error or type(error).__name__} ({size:,} bytes)") from error
