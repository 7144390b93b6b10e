"""Which files of a data set changed since a build: by their digests where the files of then are remembered, else by their own times."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from laminar.core.errors import LaminarError
from laminar.data import file_lists
from laminar.data.remember import Memory
from laminar.data.sources.places import find


def changed_since(sources: Sequence[str], root: Path, memory: Memory, *, before: str, now: str, when: float) -> list[str]:
    """The files that make the difference between two contents of `sources`, as seen from `root`; `when` the earlier one was read.

    Exact where both lists of files are remembered (folders and indexes of images); else what was written since, which may be too much.
    """
    exact = file_lists.changed(memory, before, now)
    if exact is None:
        return [path for source in sources for path in _written_since(source, root, when)]
    if len(sources) > 1:
        return [path.removeprefix("folder:") for path in exact]  # each begins with the source that it belongs to
    kind, _, rest = sources[0].partition(":")
    try:
        place = _shown(find(rest, root, what="folder"), root) if kind == "folder" else ""
    except LaminarError:
        place = ""  # only on its mirrors
    return [f"{place}/{path}" if place else path for path in exact]


def _written_since(source: str, root: Path, when: float) -> list[str]:
    """Files of `folder:photos` or `npz:x.npz` that were written, or put there, after `when` (seconds since 1970), as seen from `root`.

    A folder is named where entries of it came or went and no file in it is new. Empty for sources that are no files of this machine.
    """
    found: list[str] = []
    for part in source.partition(":")[2].split(","):
        try:
            place = find(part, root, what="file") if part else None
        except LaminarError:
            place = None  # python:module:function, a URL
        if place is not None:
            found += [_shown(path, root) + ("/" if path.is_dir() else "") for path in _newer(place, when)]
    return found


def _newer(place: Path, when: float) -> Iterator[Path]:
    if not place.is_dir():
        if _time(place) > when:
            yield place
        return
    for folder, _, names in sorted(os.walk(place, followlinks=True)):
        files = [path for name in sorted(names) if not name.startswith(".") and _time(path := Path(folder, name)) > when]
        yield from files
        if not files and os.stat(folder).st_mtime > when:
            yield Path(folder)


def _time(path: Path) -> float:
    """Of its content, or of its coming here: a copy may keep the time of its original."""
    try:
        seen = os.stat(path)
    except OSError:
        return 0.0
    return max(seen.st_mtime, seen.st_ctime)


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
