"""Search path: decide whether an import leads to the user's own code, which is followed, or to a library, which counts by version.

The user's own code is in the project's folder, its `src`, the folders of PYTHONPATH and editable installs, and modules that belong to no
distribution. Modules that a distribution installed are libraries. Python's standard library is neither.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Final

from laminar.core import watch

_STANDARD_FINDERS: Final = frozenset({"BuiltinImporter", "FrozenImporter", "PathFinder", "_Finder", "DistutilsMetaFinder"})
ABSENT: Final = "not installed"


def module_file(module: str, root: Path) -> Path | None:
    """The file of one of the user's own modules, as a project at `root` imports it; None where there is none."""
    return next((file for base in bases(module, root) if (file := _file(module, base)) is not None), None)


def module_base(module: str, root: Path) -> Path | None:
    """The folder that the module's dotted name begins in."""
    return next((base for base in bases(module, root) if _file(module, base) is not None), None)


def bases(module: str, root: Path) -> list[Path]:
    """Folders in which a module may lie that is the user's own."""
    top = module.partition(".")[0]
    found = [root]
    if os.path.isdir(src := f"{root}{os.sep}src"):
        found.append(Path(src))
    of_python = top in sys.stdlib_module_names  # which come before what is installed, and after PYTHONPATH
    others = [base for base in _own_places(tuple(sys.path)) if base not in found and not (of_python and _installed(base))]
    found += [base for base in others if _of_nobody(base, top)]
    if not any(_there(top, base) for base in found) and (edited := _editable(top, len(sys.meta_path))) is not None:
        found.append(edited)
    return found


def _file(module: str, base: Path) -> Path | None:
    path = f"{base}{os.sep}{module.replace('.', os.sep)}"
    for candidate in (f"{path}.py", f"{path}{os.sep}__init__.py"):
        if os.path.isfile(candidate):
            return Path(candidate)
    return None


def _there(top: str, base: Path) -> bool:
    place = f"{base}{os.sep}{top}"
    return os.path.isdir(place) or os.path.isfile(place + ".py")


@functools.lru_cache(maxsize=16)
def _own_places(path: tuple[str, ...]) -> tuple[Path, ...]:
    """Of sys.path. Folders of libraries come last: only what belongs to no distribution is of use there."""
    standard = tuple(os.path.normpath(place) for place in watch.standard_library())
    found: dict[Path, None] = {}
    for entry in path:
        place = os.path.abspath(entry or ".")
        of_python = place in standard or place.startswith(tuple(s + os.sep + "lib-dynload" for s in standard))
        ours = os.path.isfile(os.path.join(place, "laminar", "core", "search_path.py"))
        if os.path.isdir(place) and not of_python and not ours:
            found.setdefault(Path(place))
    return tuple(sorted(found, key=_installed))


@functools.lru_cache(maxsize=64)
def _installed(base: Path) -> bool:
    return f"{base}{os.sep}".startswith(watch.libraries())


def _of_nobody(base: Path, top: str) -> bool:
    return _there(top, base) and _distribution(base, top) is None


@functools.lru_cache(maxsize=1024)
def _editable(top: str, finders: int) -> Path | None:  # noqa: ARG001 - part of the cache key
    """Where a package lies that a finder of its own imports, as editable installs have them."""
    for finder in sys.meta_path:
        if getattr(finder, "__name__", type(finder).__name__) in _STANDARD_FINDERS or top in sys.builtin_module_names:
            continue
        try:
            spec = finder.find_spec(top, None)
        except Exception:  # of whatever kind it is
            continue
        origin = getattr(spec, "origin", None)
        if origin and origin.endswith(".py") and not os.path.abspath(origin).startswith((*watch.libraries(), watch.LAMINAR)):
            file = Path(origin).absolute()
            return file.parent.parent if file.name == "__init__.py" else file.parent
    return None


def is_library(top: str) -> bool:
    """Is it neither Python's nor Laminar's torch, whose version a key has by itself?"""
    return top not in sys.stdlib_module_names and top not in ("torch", "__future__", "")


def version(top: str) -> str:
    """The version of the distribution that a module belongs to."""
    if top == "laminar":
        return str(sys.modules["laminar"].__version__)  # which is there, as this is a part of it
    places = _own_places(tuple(sys.path))
    for there in (_there, _compiled):  # the second lists folders, and is for few
        for base in places:
            if there(top, base) and (found := _distribution(base, top)) is not None:
                return found
    return ABSENT


def _compiled(top: str, base: Path) -> bool:
    return any(name.startswith(f"{top}.") and name.endswith((".so", ".pyd")) for name in os.listdir(base))


def _distribution(base: Path, top: str) -> str | None:
    """The version of what was installed in this folder and has the module."""
    try:
        return _versions(base, os.stat(base).st_mtime_ns, top)
    except OSError:
        return None


@functools.lru_cache(maxsize=4096)
def _versions(base: Path, changed: int, top: str) -> str | None:
    infos = _infos(base, changed)
    by_name = [name for name in infos if _normal(name.partition("-")[0]) == _normal(top)]
    for name in (*by_name, *(other for other in infos if other not in by_name)):
        folder = base / name
        if (name in by_name or _has(folder, top)) and not _is_editable(folder):
            return name.removesuffix(".dist-info").partition("-")[2]
    return None


@functools.lru_cache(maxsize=64)
def _infos(base: Path, changed: int) -> list[str]:  # noqa: ARG001 - part of the cache key
    return [name for name in os.listdir(base) if name.endswith(".dist-info")]


def _has(info: Path, top: str) -> bool:
    try:
        if top in (info / "top_level.txt").read_text().split():
            return True
    except OSError:
        pass
    try:
        record = b"\n" + (info / "RECORD").read_bytes()
    except OSError:
        return False
    return f"\n{top}/".encode() in record or f"\n{top}.py,".encode() in record


def _is_editable(info: Path) -> bool:
    try:
        return bool(json.loads((info / "direct_url.json").read_text())["dir_info"]["editable"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
