"""What a grid needs beside Laminar itself, named where it is missing."""

from __future__ import annotations

import os
from importlib.util import find_spec

from laminar.core.errors import LaminarError

NEEDED = ("sqlalchemy", "starlette", "uvicorn", "httptools", "httpx", "cryptography", "zstandard", "psutil")


def need_grid() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"the grid needs {', '.join(missing)}", hint="pip install 'laminar-train[grid]'")


def use_one_thread() -> None:
    """For what puts answers together, before numpy and torch are loaded.

    Sums over the parameters of a small model take microseconds. The threads that would share them wait for the next one by spinning,
    which took two thirds of the server's processor time: 12.6 ms of an answer instead of 4.6, on two cores that the nodes wanted too.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
