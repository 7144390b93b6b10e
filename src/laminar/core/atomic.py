"""Atomic files: a reader sees the old content or the new, never a half, whatever is killed when."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from laminar.core.errors import LaminarError
from laminar.core.permission import refusal


def fsync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut (a no-op where folders cannot be opened)."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def writing(path: Path, *, tmp: Path | None = None, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes `path` when the block ends well, and vanishes when it does not.

    `tmp` is a folder on the same file system (default: that of `path`). `mode`: who may read it, less the umask. Disk-full,
    read-only and permission errors become LaminarError L301/L302.
    """
    folder = tmp or path.parent
    name = folder / f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    with explaining_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with open(name, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise
        fsync_folder(path.parent)


def write_bytes(path: Path, data: bytes, *, tmp: Path | None = None, mode: int = 0o666) -> None:
    with writing(path, tmp=tmp, mode=mode) as file:
        file.write(data)


def write_unflushed(path: Path, data: bytes) -> None:
    """Whole or not at all, and gone after a power cut perhaps: for what can be had again, and is written often."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with explaining_os_errors(path):
        try:
            part.write_bytes(data)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()  # on a full disk it would be in the way of what comes next
            raise


def write_text(path: Path, text: str, *, tmp: Path | None = None) -> None:
    write_bytes(path, text.encode(), tmp=tmp)


def read_bytes(path: Path) -> bytes:
    """L302 where it may not be read; any other failure is the caller's to understand."""
    try:
        return path.read_bytes()
    except PermissionError as error:
        raise refusal(error, path) from error


@contextlib.contextmanager
def explaining_os_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals on working with `path` into catalogue errors."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LaminarError(
                "L301",
                f"no space left while writing {error.filename or path}",
                hint="laminar gc, or free space on that disk; then run the same command again",
            ) from error
        if is_refusal(error):
            raise refusal(error, path) from error
        raise


def is_refusal(error: OSError) -> bool:
    """Is it for want of permission?"""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
