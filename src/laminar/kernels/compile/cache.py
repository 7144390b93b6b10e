"""Machine code kept on the disk, for all projects of a user.

The key is of what the code is made of: the kernel, how it is run, the processor, LLVM and this package itself. Files appear whole (they are
written elsewhere and renamed), and one that is not as it was written is made anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any, Final

from laminar.data.sources.places import cache_folder
from laminar.kernels import analyse, language

_HEAD: Final = b"laminar kernel\n"


@functools.lru_cache(1)
def _makers() -> str:
    """Of the text that makes the code: another version of it may make other code."""
    found = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(analyse.__file__).parent, Path(language.__file__).parent):
        for path in sorted(folder.glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def key(*words: str) -> str:
    return hashlib.sha256("\0".join([_makers(), *words]).encode()).hexdigest()


def _path(name: str) -> Path:
    return cache_folder() / "kernels" / name[:2] / f"{name}.o"


def kept(name: str) -> tuple[dict[str, Any], bytes] | None:
    """What is said of the code, and the code; None if there is none, or none that can be trusted."""
    try:
        data = _path(name).read_bytes()
    except OSError:
        return None
    size = len(_HEAD) + 32
    if data[: len(_HEAD)] != _HEAD or hashlib.sha256(data[size:]).digest() != data[len(_HEAD) : size]:
        return None
    told, _, code = data[size:].partition(b"\n")
    found: dict[str, Any] = json.loads(told)
    return found, code


def keep(name: str, told: dict[str, Any], code: bytes) -> None:
    """A disk that is full or read-only is no hindrance: it is made again next time."""
    path = _path(name)
    payload = json.dumps(told).encode() + b"\n" + code
    other = path.with_name(f".{name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            other.write_bytes(_HEAD + hashlib.sha256(payload).digest() + payload)
            os.replace(other, path)
        finally:
            other.unlink(missing_ok=True)
