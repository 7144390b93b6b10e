"""What a grid needs beside Laminar itself, named where it is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec

from laminar.core.errors import LaminarError

NODE = ("certifi", "cryptography", "psutil", "zstandard")
GRID = (*NODE, "httptools", "httpx", "sqlalchemy", "starlette", "uvicorn")


def need_node() -> None:
    """Only what a node needs: it runs no server and no database."""
    _need("a node of a grid", NODE, "node")


def need_grid() -> None:
    _need("the grid", GRID, "grid")


def _need(what: str, names: Sequence[str], extra: str) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise LaminarError("L011", f"{what} needs {', '.join(missing)}", hint=f"pip install 'laminar-train[{extra}]'")


def use_one_thread() -> None:
    """For what puts answers together, before numpy and torch are loaded.

    Sums over the parameters of a small model take microseconds. The threads that would share them wait for the next one by spinning,
    which took two thirds of the server's processor time: 12.6 ms of an answer instead of 4.6, on two cores that the nodes wanted too.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
