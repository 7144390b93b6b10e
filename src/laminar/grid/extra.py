"""What a grid needs beside Laminar itself, named where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from laminar.core.errors import LaminarError

NEEDED = ("sqlalchemy", "starlette", "uvicorn", "httptools", "httpx", "cryptography", "zstandard", "psutil")


def need_grid() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"the grid needs {', '.join(missing)}", hint="pip install 'laminar[grid]'")
