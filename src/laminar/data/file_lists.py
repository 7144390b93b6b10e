"""Lists of files by content: which files, with which bytes, a data set consisted of when it had this digest.

A key has one digest for all content. With the list of then and the list of now, what changed between them is known file by file, exactly
and whatever the clocks say. Lists are a convenience: the oldest go, and one that is not there is simply not known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from laminar.data.remember import Memory

KEPT: Final = 32


class _Files(msgspec.Struct):
    files: dict[str, str]  # path -> sha256
    trees: dict[str, str] = {}  # folder with "/" -> digest of the content below it


def keep(memory: Memory, content: str, files: Iterable[tuple[str, str]] = (), *, trees: Mapping[str, str] | None = None) -> None:
    """Remember that `content` is these files (path, sha256), and what is below these folders."""
    if (memory.folder / f"{_name(content)}.json").exists():
        return
    memory.write(_name(content), _Files(dict(files), dict(trees or {})))
    with contextlib.suppress(OSError):
        lists = sorted(memory.folder.glob(f"{_name('')}*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in lists[:-KEPT]:
            path.unlink(missing_ok=True)


def changed(memory: Memory, before: str, now: str) -> list[str] | None:
    """The paths that are new, gone or have other bytes in `now`, sorted; None where one of the two contents is not known."""
    old, new = _files(memory, before), _files(memory, now)
    if old is None or new is None:
        return None
    return sorted(path for path in {*old, *new} if old.get(path) != new.get(path))


def _files(memory: Memory, content: str) -> dict[str, str] | None:
    known = memory.read(_name(content), _Files)
    if known is None:
        return None
    found = dict(known.files)
    for folder, tree in known.trees.items():
        below = _files(memory, tree)
        if below is None:
            return None
        found |= {folder + path: sha for path, sha in below.items()}
    return found


def _name(content: str) -> str:
    return f"files-{content}"
