"""Watch: the hooks that report what the code in this process reads. A Looking (observe.py) receives the reports.

Audit hooks report opened files, listed folders, databases, loaded libraries and started programs. os.stat, os.lstat, os.access and
os.environ are hooked while a Looking is active, and native readers are wrapped when they are imported. The caller matters: each read is
attributed to the nearest caller outside of the standard library, which is the user's own code, a library, or Laminar.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from laminar.core.observe import Looking

LAMINAR: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_READS_FOR_USERS: Final = tuple(LAMINAR + "data" + os.sep + part + os.sep for part in ("formats", "sources"))
_SHOWS_SOURCE: Final = frozenset({"linecache", "inspect", "traceback", "tokenize", "warnings"})
_LOOKS_FOR_PACKAGES: Final = frozenset({"metadata", "zipimport", "pkg_resources"})  # libraries do, all over sys.path
_PROGRAMS: Final = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"})
_NETWORK: Final = frozenset({"socket.connect", "urllib.Request", "http.client.connect", "ftplib.connect"})
_IMPORT_MODULES: Final = frozenset({"runpy", "pkgutil"})

_HOOKS: Final = (__file__, str(Path(__file__).with_name("native_readers.py")))

_LISTENERS: Final[list[Looking]] = []
_LOCK: Final = threading.RLock()
_RESTORE: Final[list[Callable[[], None]]] = []
_STAT: Final = os.stat
_BUSY: Final = threading.local()
_hooked = False


@functools.cache
def libraries() -> tuple[str, ...]:
    """Folders of Python and of installed libraries."""
    import site

    # Not the prefix itself: a project may lie below it, or have its environment there. sysconfig would tell, and is slow to load.
    installed = {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    installed |= set(getattr(site, "getsitepackages", list)())
    if (users := getattr(site, "getusersitepackages", None)) is not None:
        installed.add(users())
    own = {os.path.join(sys.prefix, part) for part in ("bin", "Scripts", "include")}
    return _folders({*installed, *own, os.path.dirname(os.__file__)})


@functools.cache
def standard_library() -> tuple[str, ...]:
    return _folders({os.path.dirname(os.__file__)})


def _folders(paths: set[str]) -> tuple[str, ...]:
    return tuple(sorted({path.rstrip(os.sep) + os.sep for given in paths for path in (given, os.path.realpath(given)) if len(path) > 1}))


def begin(looking: Looking) -> None:
    global _hooked
    from laminar.core import native_readers

    with _LOCK:
        if not _hooked:  # an audit hook can never be taken back, so there is one, and it costs nothing while nobody listens
            libraries(), standard_library(), _in_standard()
            sys.addaudithook(_audit)
            _hooked = True
        native_readers.wrap(_native)
        if not _LISTENERS:
            _RESTORE.extend([*(_watch_stat(name) for name in ("stat", "lstat", "access")), _watch_environment()])
        _LISTENERS.append(looking)


def end(looking: Looking) -> None:
    with _LOCK:
        _LISTENERS.remove(looking)
        while _RESTORE and not _LISTENERS:
            _RESTORE.pop()()


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """Is this not heard from within hearing?"""
    if getattr(_BUSY, "now", False):
        yield False
        return
    _BUSY.now = True
    try:
        yield True
    finally:
        _BUSY.now = False


# Who asks


@functools.cache
def _in_standard() -> tuple[str, ...]:
    """site-packages may lie inside the standard library's folder."""
    standard = standard_library()
    return tuple(folder for folder in libraries() if folder not in standard and folder.startswith(standard))


class _Caller:
    """The nearest caller that is not of the standard library; what of that lies between."""

    def __init__(self, frame: FrameType | None) -> None:
        self.file, self.importing, self.between = "", False, set[str]()
        self.first: tuple[int, int] | None = None  # the frame and instruction that asked
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib"):
                self.importing = True
            elif name not in _HOOKS and not name.startswith("<frozen"):
                if self.first is None:
                    self.first = (id(frame), frame.f_lasti)
                if not name.startswith(standard_library()) or name.startswith(_in_standard()):
                    self.file = name
                    return
                folder, module = os.path.split(name)
                self.between.add(os.path.basename(folder) if module == "__init__.py" else module.removesuffix(".py"))
            frame = frame.f_back

    @property
    def laminar(self) -> bool:
        return self.file.startswith(LAMINAR) and not self.file.startswith(_READS_FOR_USERS)

    @property
    def own(self) -> bool:
        """The user's own code. What a module of the standard library asks for while it is imported is its own affair."""
        return bool(self.file) and not self.importing and not self.file.startswith(LAMINAR) and not self.file.startswith(libraries())


# What is heard


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _LISTENERS:  # nobody listens, or the interpreter is ending and has already taken the list away: a hook outlives its module
        return
    if (
        event in ("open", "os.listdir", "os.scandir", "sqlite3.connect", "ctypes.dlopen", "import")
        or event in _PROGRAMS
        or event in _NETWORK
    ):
        with _alone() as alone:
            if alone:
                _hear(event, args)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    caller = _Caller(sys._getframe(1))
    if caller.laminar or (not caller.own and caller.between & _LOOKS_FOR_PACKAGES):
        return
    if event in _PROGRAMS:
        if caller.own:
            _tell("cannot_see", f"starts a program ({_name_of_program(event, args)})")
        return
    if event in _NETWORK:
        if caller.own:
            _tell("cannot_see", "uses the network")
        return
    if event == "import":
        if args[1] and os.path.isabs(os.fsdecode(args[1])):
            _tell("read", os.path.abspath(os.fsdecode(args[1])))
        return
    path = args[0] if args[0] is not None or event not in ("os.listdir", "os.scandir") else "."
    if not isinstance(path, str | bytes | os.PathLike):
        return
    text = os.path.abspath(os.fsdecode(path))
    if event in ("os.listdir", "os.scandir"):
        if not caller.importing:
            _tell("listed", text)
    elif event == "open":
        _opened(text, args[2], caller)
    elif os.path.isabs(os.fsdecode(path)) or os.path.exists(text):  # a database; a library by its path, not by its name
        _tell("read", text)


def _opened(path: str, flags: int, caller: _Caller) -> None:
    if flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY or flags & (os.O_TRUNC | os.O_EXCL):
        _tell("wrote", path)
    elif path.endswith((".py", ".pyc")) and (caller.importing or caller.between & (_IMPORT_MODULES | _SHOWS_SOURCE)):
        if path.endswith(".pyc"):
            with contextlib.suppress(ValueError):
                path = importlib.util.source_from_cache(path)
        if not caller.between & _SHOWS_SOURCE:
            _tell("imported", path)
    elif not path.endswith(".pyc") and not caller.importing:
        _tell("read", path)


def _name_of_program(event: str, args: tuple[Any, ...]) -> str:
    words = args[1] if event in ("subprocess.Popen", "os.posix_spawn") and len(args) > 1 and args[1] else args[0]
    if isinstance(words, list | tuple):
        words = words[0] if words else ""
    text = os.fsdecode(words) if isinstance(words, str | bytes | os.PathLike) else str(words)
    return os.path.basename(text.split()[0]) if text.split() else "?"


def _native(values: tuple[Any, ...], names: dict[str, Any]) -> None:
    """A native reader was called with these arguments: those that are paths are read."""
    if not _LISTENERS:
        return
    with _alone() as alone:
        if not alone or _Caller(sys._getframe(1)).laminar:
            return
        for value in (*values, *names.values()):
            for path in value if isinstance(value, list | tuple) else (value,):
                if isinstance(path, str | bytes | os.PathLike):
                    with contextlib.suppress(OSError, ValueError):
                        _STAT(path)  # the name of a format is no file
                        _tell("read_tree", os.path.abspath(os.fsdecode(path)))


def _tell(what: str, *words: Any) -> None:
    for listener in _LISTENERS:
        getattr(listener, what)(*words)


def layer_loaded(store: Path, stack: str | None, ref: str, id: str) -> None:
    """Code of the user's asks for a layer by its name (laminar.load)."""
    _tell("loaded", str(store.resolve()), stack or "", ref, id)


def _watch_stat(name: str) -> Callable[[], None]:
    """`os.path.exists`, `Path.is_file` and their like ask by these."""
    plain = getattr(os, name)

    @functools.wraps(plain)
    def watched(path: Any, *args: Any, **options: Any) -> Any:
        if _LISTENERS and isinstance(path, str | bytes | os.PathLike) and options.get("dir_fd") is None:
            with _alone() as alone:
                if alone and sys._getframe(1).f_code.co_name not in ("_joinrealpath", "realpath"):
                    caller = _Caller(sys._getframe(1))
                    if caller.own and not caller.between & _SHOWS_SOURCE:
                        _tell("asked", os.path.abspath(os.fsdecode(path)))
        return plain(path, *args, **options)

    setattr(os, name, watched)

    def restore() -> None:
        if getattr(os, name) is watched:
            setattr(os, name, plain)

    return restore


def _watch_environment() -> Callable[[], None]:
    kind: Any = type(os.environ)
    get, put, remove, walk = kind.__getitem__, kind.__setitem__, kind.__delitem__, kind.__iter__
    walked: set[tuple[int, int]] = set()  # where all variables are taken: what is asked for from there is no choice

    def watched_get(self: Any, key: Any) -> Any:
        if _LISTENERS and isinstance(key, str | bytes):
            with _alone() as alone:
                caller = _Caller(sys._getframe(1)) if alone else None
                if caller is not None and caller.own and caller.first not in walked:
                    try:
                        value = os.fsdecode(get(self, key))
                    except KeyError:
                        value = None
                    _tell("variable", os.fsdecode(key), value)
        return get(self, key)

    def watched_put(self: Any, key: Any, value: Any) -> None:
        if _LISTENERS and isinstance(key, str | bytes):
            _tell("variable_set", os.fsdecode(key))
        put(self, key, value)

    def watched_remove(self: Any, key: Any) -> None:
        if _LISTENERS and isinstance(key, str | bytes):
            _tell("variable_set", os.fsdecode(key))
        remove(self, key)

    def watched_walk(self: Any) -> Any:
        if _LISTENERS:
            with _alone() as alone:
                caller = _Caller(sys._getframe(1)) if alone else None
                if caller is not None and caller.own:
                    if caller.first is not None:
                        walked.add(caller.first)
                    _tell("cannot_see", "takes all variables of the environment")
        return walk(self)

    kind.__getitem__, kind.__setitem__, kind.__delitem__, kind.__iter__ = watched_get, watched_put, watched_remove, watched_walk

    def restore() -> None:
        kind.__getitem__, kind.__setitem__, kind.__delitem__, kind.__iter__ = get, put, remove, walk

    return restore
