"""Observe: record what the user's code reads while it runs, and which reads could not be observed.

    looking = Looking(root)
    with looking:
        module = import_from(root, "models"); model = module.net()
    looking.settle(digest_of)     # {"file:weights.bin": sha256, "env:SCALE": …}: what the result depends on, beside code and arguments
    looking.unseen                # ["starts a program (cat)", …]: worth a warning

Tags are `file:` (its bytes count), `source:` (Python code that was imported: its meaning counts), `folder:` (the names in it), `asked:`
(is it there, and how large), `env:` (a variable), `layer:` (what a name means in a store, for `laminar.load`). Paths are relative to the
project where they lie in it, else with `~` or absolute.

The hooks are in watch.py, and the known native readers in native_readers.py. Not observed: reads of other programs, and of unknown
libraries that open files in C. Files of the system and of installed libraries are not recorded: libraries count by version. Variables
count only if the user's own code reads them.
"""

from __future__ import annotations

import ast
import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, final

from laminar.core import digest, watch

FILE, SOURCE, FOLDER, ASKED, ENV, LAYER = "file:", "source:", "folder:", "asked:", "env:", "layer:"
MISSING: Final = "missing"
DigestOf = Callable[[Path], str]

_SYSTEM: Final = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/run/", "/System/", "/Library/")


RESOLVERS: Final[dict[str, Callable[[str, Path], str]]] = {}
"""What is at a tag of a kind that a package above this one knows: of `layer:` (stack/seen.py)."""


class ChangedMeanwhile(Exception):
    """A file is not any more what it was when it was looked at."""


def shown(path: str, root: Path) -> str:
    """A path as a record has it."""
    if path == str(root):
        return "."
    inside = str(root) + os.sep
    if path.startswith(inside):
        return path[len(inside) :].replace(os.sep, "/")
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if len(home) > 1 and path.startswith(home + os.sep) else path


def place(text: str, root: Path) -> Path:
    """The path that a record has as `text`."""
    return root / os.path.expanduser(text)


def state(tag: str, root: Path, digest_of: DigestOf) -> str:
    """What is at a tag now. `digest_of` a file: sha256, or a quicker fact that changes with it."""
    kind, _, rest = tag.partition(":")
    if kind == "env":
        value = os.environ.get(rest)
        return "unset" if value is None else digest.of_bytes(value.encode("utf-8", "surrogateescape"))
    if kind in RESOLVERS:
        return RESOLVERS[kind](rest, root)
    path = place(rest, root)
    try:
        if kind == "folder":
            return digest.of_bytes("\0".join(_visible(path)).encode("utf-8", "surrogateescape"))
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, and a device never ends
            return "no file"
        if kind == "asked":
            return f"{found.st_size} bytes"
        return _meaning(path) if kind == "source" else digest_of(path)
    except OSError:
        return MISSING


def _visible(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name[0] != "." and name != "__pycache__")


def _meaning(path: Path) -> str:
    """The digest of Python code without its comments."""
    source = path.read_bytes()
    with contextlib.suppress(SyntaxError, ValueError):
        return digest.of_bytes(ast.dump(ast.parse(source)).encode())
    return digest.of_bytes(source)


@final
class Looking:
    """What is looked at while it is entered, which may be several times. In this process, by any thread."""

    def __init__(self, root: Path, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is called with each new tag, at once."""
        self.root, self._tell = root.resolve(), tell
        self._seen: dict[str, Any] = {}  # tag -> what it was like then, of files
        self._written: set[str] = set()
        self._set: set[str] = set()  # variables
        self._unseen: dict[str, None] = {}

    @property
    def tags(self) -> list[str]:
        return sorted(self._seen)

    @property
    def unseen(self) -> list[str]:
        return list(self._unseen)

    def __enter__(self) -> Looking:
        watch.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        watch.end(self)

    def settle(self, digest_of: DigestOf, known: Mapping[str, str] | None = None) -> dict[str, str]:
        """What each tag is like, but those `known` from before; raises ChangedMeanwhile where that is not what was looked at any more."""
        states = dict(known or {})
        for tag, before in sorted(self._seen.items()):
            kind = tag[: tag.index(":") + 1]
            path = "" if kind in (ENV, LAYER) else str(place(tag.removeprefix(kind), self.root))
            if kind == ASKED and path in self._written:  # asked for, then written: whoever runs next reads it
                tag = FILE + tag.removeprefix(ASKED)
            if tag in states:
                continue
            if kind in (FILE, SOURCE) and before != _signature(path):
                raise ChangedMeanwhile(shown(path, self.root))
            states[tag] = before if kind in (ENV, LAYER) else state(tag, self.root, digest_of)
        return states

    def _note(self, tag: str, before: Any) -> None:
        if tag not in self._seen:
            self._seen[tag] = before
            if self._tell is not None:
                self._tell(tag)

    def seen_elsewhere(self, tags: Iterable[str]) -> None:
        """What another process looked at for this one, such as a worker: what is there on this machine now counts."""
        for tag in tags:
            kind, _, rest = tag.partition(":")
            if kind in ("env", *RESOLVERS):
                self._note(tag, state(tag, self.root, lambda _: ""))
            else:
                self._note(tag, _signature(str(place(rest, self.root))) if f"{kind}:" in (FILE, SOURCE) else None)

    # What is heard

    def read(self, path: str, tag: str = FILE) -> None:
        if path not in self._written and self._counts(path):
            self._note(tag + shown(path, self.root), _signature(path))

    def imported(self, path: str) -> None:
        self.read(path, SOURCE)

    def read_tree(self, path: str) -> None:
        """What a reader was given: a file, or all below a folder."""
        if not os.path.isdir(path):
            self.read(path)
            return
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if name[0] != "."]
            self.listed(folder)
            for name in names:
                self.read(os.path.join(folder, name))

    def wrote(self, path: str) -> None:
        if FILE + shown(path, self.root) not in self._seen:
            self._written.add(path)

    def listed(self, path: str) -> None:
        if self._counts(path + os.sep):
            self._note(FOLDER + shown(path, self.root), None)

    def asked(self, path: str) -> None:
        if path not in self._written and self._counts(path) and path + os.sep not in str(self.root) + os.sep:
            self._note(ASKED + shown(path, self.root), None)

    def variable(self, name: str, value: str | None) -> None:
        if name not in self._set:
            known = "unset" if value is None else digest.of_bytes(value.encode("utf-8", "surrogateescape"))
            self._note(ENV + name, known)

    def variable_set(self, name: str) -> None:
        if ENV + name not in self._seen:
            self._set.add(name)

    def loaded(self, store: str, stack: str, ref: str, id: str) -> None:
        """A layer of a store, by a name that may mean another one tomorrow."""
        self._note(f"{LAYER}{shown(store, self.root)}|{stack}|{ref}", id)

    def cannot_see(self, what: str) -> None:
        self._unseen.setdefault(what)

    def _counts(self, path: str) -> bool:
        if path.startswith(watch.libraries()) or "__pycache__" in path:
            return False
        if path.startswith(str(self.root) + os.sep):
            return not path[len(str(self.root)) :].startswith(os.sep + ".laminar" + os.sep)
        return not path.startswith((*_SYSTEM, watch.LAMINAR))


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        return digest.stat_signature(path)
    except OSError:
        return None
