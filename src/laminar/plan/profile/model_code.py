"""The code of a model: the files of its classes and of whatever these take from others, but for what is installed. No torch here.

Whole files count: a figure is measured again for a change that did not matter, rather than taken for one of code that is no more. What is
installed (torch above all) counts by its version.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from laminar.core.project_code import PREFIX

STANDARD: Final = sysconfig.get_path("stdlib")
INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
OURS: Final = "laminar"
BUILT_IN: Final = ("laminar.model.builtin", "laminar.model.networks")  # modules with the models that Laminar has


def code_of(kinds: Iterable[type]) -> str:
    """A digest of it."""
    ahead, seen = [kind.__module__ for kind in kinds], set[str]()
    files: dict[str, bytes] = {}
    while ahead:
        name = ahead.pop()
        module = sys.modules.get(name)
        if module is None or name in seen:
            continue
        seen.add(name)
        if (text := _text(module)) is not None:
            files[plain_name(name)] = text
            ahead += _neighbours(module)
    state = hashlib.sha256()
    for name, text in sorted(files.items()):
        state.update(f"{name} {len(text)} ".encode() + text)
    return state.hexdigest()


def plain_name(module: str) -> str:
    """As its author calls it: the same wherever the project lies."""
    return module.partition(".")[2] if module.startswith(PREFIX) else module


def _text(module: ModuleType) -> bytes | None:
    """None: it is installed, or has no file."""
    name, file = module.__name__, getattr(module, "__file__", None)
    ours = name in BUILT_IN or name.startswith(tuple(f"{package}." for package in BUILT_IN))
    if file is None or (name.partition(".")[0] == OURS and not ours):
        return None
    path = Path(file)
    if not ours and (path.is_relative_to(STANDARD) or not INSTALLED.isdisjoint(path.parts)):
        return None
    try:
        return path.read_bytes()
    except OSError:  # it was taken away since
        return b""


def _neighbours(module: ModuleType) -> list[str]:
    """Modules that it has something of."""
    return [value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", "")) for value in vars(module).values()]
