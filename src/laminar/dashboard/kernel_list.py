"""The kernels of a project: C files with a function `kernel`, and which modules read them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import DESCRIBED, kernel_files, kernel_names, kernel_paths
from laminar.kernels.open_file import LARGEST

MOST: Final = 200
FILES: Final = 20_000  # that are looked at: a project may stand in a folder with everything
SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})
_KERNEL: Final = re.compile(rb"\bkernel\s*\(")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    path: str  # from the project's folder
    lines: int
    described: bool  # by a file beside it
    used_by: list[str]  # modules of the project that read it


def kernels(root: Path) -> list[Found]:
    """By path. What cannot be read is left out."""
    sources, modules = list[Path](), list[Path]()
    for path in _files(root):
        (sources if path.suffix == ".c" else modules).append(path)
    users = _users(modules, root)
    found = [_found(path, root, users) for path in sources]
    return sorted((one for one in found if one is not None), key=lambda one: one.path)[:MOST]


def kernel_path(root: Path, name: str) -> Path:
    """The file of that name, if it is one of the project's kernels: a page asks for nothing else. L006 if it is none."""
    if name not in {one.path for one in kernels(root)}:
        raise LaminarError(
            "L006", f"there is no kernel {name!r} in {root}", hint="laminar ui shows the kernels of the folder it was started in"
        )
    return root / name


def _files(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, below, names in os.walk(root):
        below[:] = sorted(one for one in below if not one.startswith(".") and one not in SKIPPED)
        for name in sorted(names):
            if name.endswith((".c", ".py")) and not name.startswith("."):
                yield Path(folder, name)
        seen += len(names)
        if seen > FILES:
            return


def _found(path: Path, root: Path, users: dict[Path, list[str]]) -> Found | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        text = path.read_bytes()
    except OSError:
        return None
    if not _KERNEL.search(text):
        return None
    beside = path.with_suffix(DESCRIBED).is_file()
    return Found(path=path.relative_to(root).as_posix(), lines=len(text.splitlines()), described=beside, used_by=users.get(path, []))


def _users(modules: list[Path], root: Path) -> dict[Path, list[str]]:
    found: dict[Path, list[str]] = {}
    for module in modules:
        try:
            text = module.read_text(encoding="utf-8")
            if "kernel" not in text:
                continue
            tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        names = kernel_names(tree.body)
        for given in (one for statement in tree.body for one in kernel_files(statement, names)):
            for path in kernel_paths(given, module.parent, root) if given is not None else []:
                found.setdefault(path, []).append(module.relative_to(root).as_posix())
    return {path: sorted(set(users)) for path, users in found.items()}
