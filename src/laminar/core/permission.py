"""Permission: what exactly may not be read or written, and the command that changes it."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError


def refusal(error: OSError, path: Path) -> LaminarError:
    """L302 for what the operating system refused on `path` (or on the file the error names): reading or writing, where, and what to do."""
    where = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
    if error.errno == errno.EROFS:
        fix = _or_another_store("mount it so that it can be written", where)
        return LaminarError("L302", f"may not write {where}: its disk is mounted read-only", hint=fix)
    verb, letter, culprit = _what_is_missing(where)
    at = "" if culprit == where else f" (because of {culprit})"
    return LaminarError("L302", f"may not {verb} {where}{at}: {error.strerror}", hint=_or_another_store(allow(culprit, letter), where))


def _what_is_missing(where: Path) -> tuple[str, str, Path]:
    """(reach, read or write; the letter of chmod; the file or folder it is about). os.path: it throws nothing, where Path's methods do."""
    for folder in reversed(where.parents):
        if os.path.isdir(folder) and not os.access(folder, os.X_OK):
            return "reach", "x", folder
    if not os.path.lexists(where):
        return "write", "w", next((folder for folder in where.parents if os.path.exists(folder)), where)
    if not os.access(where, os.R_OK):
        return "read", "r", where
    if os.path.isdir(where) and not os.access(where, os.X_OK):
        return "reach", "x", where
    return "write", "w", where if not os.access(where, os.W_OK) else where.parent


def allow(culprit: Path, letter: str) -> str:
    """The command that grants access to the user's own file or folder; for another user's, whom to ask."""
    place = shlex.quote(str(culprit))
    rights = "rwx" if os.path.isdir(culprit) and letter != "r" else letter
    try:
        owner = culprit.stat().st_uid
        mine = owner == os.geteuid()
    except (OSError, AttributeError):  # it cannot be looked at; or a system without users
        return f"chmod u+{rights} {place}"
    if letter == "w" and _mounted_read_only(culprit):
        return "mount it so that it can be written"
    return f"chmod u+{rights} {place}" if mine else f"ask {_name(owner)}, who owns it, for permission to {_REACH[letter]} {place}"


_REACH: Final = {"r": "read", "w": "write to", "x": "enter"}


def _mounted_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except (OSError, AttributeError):  # the system does not say
        return False


def _name(user: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return f"user {user}"


def _or_another_store(fix: str, where: Path) -> str:
    """A store can be chosen; any other folder is where it is."""
    inside = any(os.path.isdir(folder / "objects") and os.path.isdir(folder / "layers") for folder in (where, *where.parents))
    return f"{fix}, or set LAMINAR_STORE to a folder of your own" if inside else fix
