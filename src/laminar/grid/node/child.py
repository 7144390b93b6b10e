"""Child: what the processes have in common that a keeper starts (worker_process.py, data_process.py). They take one JSON line and answer
with one, work no more than their share, and end with their keeper.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.grid.node.memory_limit import CODE, MemoryLimit

LOOK: Final = 1.0  # seconds between looks whether the keeper is there, where that is not told


def own_output() -> int:
    """A copy of the standard output for answers. What libraries print goes elsewhere."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def say(out: int, said: dict[str, Any]) -> None:
    line = msgspec.json.encode(said) + b"\n"
    while line:
        line = line[os.write(out, line) :]


def serve(out: int, home: Path, limit: MemoryLimit, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer what the keeper asks until it asks no more. Whatever goes wrong is an answer, too: {"error": text, "code": "L601"}."""
    for line in sys.stdin.buffer:
        try:
            with explaining_os_errors(home):
                said = answer(msgspec.json.decode(line))
        except LaminarError as error:
            said = {"error": error.message, "code": error.code}
        except Exception as error:
            short = limit.said(error)
            said = {"error": short, "code": CODE} if short else {"error": f"{type(error).__name__}: {error}", "code": ""}
        say(out, said)


class Pace:
    """Works a share of the time: after a step it sleeps as long as the rest of the share says."""

    def __init__(self, share: float, *, threads: int | None = None) -> None:
        """`threads`: what is counted is the time of processors, and a share of so many, not the time that passes. That is for a process
        that mostly waits, and whose threads do not all work."""
        self._share, self._threads, self._parent = share, threads, os.getppid()
        self._last, self._used = time.monotonic(), time.process_time()
        self._look = self._last + LOOK

    def pause(self) -> None:
        if self._orphaned():
            os._exit(0)  # nobody minds the owner any more
        if self._share < 1:
            passed = time.monotonic() - self._last
            worked = passed if self._threads is None else (time.process_time() - self._used) / self._threads
            time.sleep(max(0.0, worked / self._share - passed))
        self._last, self._used = time.monotonic(), time.process_time()

    def _orphaned(self) -> bool:
        """A process whose parent is gone gets another one; on Windows it keeps the number of the old."""
        if os.getppid() != self._parent:
            return True
        if os.name == "posix" or time.monotonic() < self._look:
            return False
        import psutil

        self._look = time.monotonic() + LOOK
        return not psutil.pid_exists(self._parent)
