"""Errors of the author's own code: what was raised, and at which of their lines. No torch is imported."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from laminar.core import project_code

_LAMINAR = Path(__file__).resolve().parents[1]
_PYTHON = Path(os.__file__).resolve().parent
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


def raised_at(error: BaseException, root: Path | None = None) -> str:
    """`models.py:12`: the innermost line of the author's code in an error's traceback, or ''.

    With `root`, a line of that project; without, any line that is neither Python's nor a library's nor ours.
    """
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if not frame.filename.startswith("<") and _is_the_authors(path.resolve(), root):
            where = f"{_shown(path.resolve(), root)}:{frame.lineno}"
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{_shown(Path(error.filename).resolve(), root)}:{error.lineno}"
    return where


def last_line(error: BaseException) -> str:
    """`ValueError: what it says`, one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    name = type(error).__name__
    return _project_free(f"{name}: {text}" if text else name)


def _is_the_authors(path: Path, root: Path | None) -> bool:
    if _LIBRARIES & set(path.parts):
        return False
    if root is not None:
        return path.is_relative_to(root.resolve()) and ".venv" not in path.relative_to(root.resolve()).parts
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    others = [_LAMINAR, _PYTHON, *([Path(torch).resolve().parent] if torch else [])]
    return not any(path.is_relative_to(folder) for folder in others)


def _shown(path: Path, root: Path | None) -> str:
    folder = root.resolve() if root is not None else project_code.root_of(path)
    return path.relative_to(folder).as_posix() if folder is not None and path.is_relative_to(folder) else path.name


def _project_free(text: str) -> str:
    """The private package name of the project (core/project_code.py) taken out of a message."""
    words = text.split(project_code.PREFIX)
    return words[0] + "".join(rest.partition(".")[2] if "." in rest else rest for rest in words[1:])
