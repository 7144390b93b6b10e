"""Scratch folders: temporary ones that are removed when their process is done with them, and by the next one when it was killed.

Each has a file that names its owner, who holds a lock on it: a lock that can be taken belongs to nobody.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

OWNER: Final = ".owner"
_held: list[int] = []  # open files, whose locks last as long as this process


def scratch(prefix: str, within: str | None = None) -> Path:
    """A new folder for temporary files, where the system has them or `within` another. Those that dead processes left are removed."""
    sweep(prefix, within)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    with contextlib.suppress(OSError, ImportError):
        file = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        _lock(file)
        _held.append(file)
    return folder


def sweep(prefix: str, within: str | None = None) -> None:
    """Remove folders of this prefix whose owner is gone. Those of other users, and those without an owner's file, are left alone."""
    for folder in Path(within or tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError, ImportError):
            file = os.open(folder / OWNER, os.O_RDWR)
            try:
                _lock(file)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(file)


def _lock(file: int) -> None:
    """OSError if somebody else has it; ImportError where the system has no such locks."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
