"""The process that computes: `python -m laminar.grid.node.worker_process HOME THREADS SHARE MEMORY REACH [KERNELS]`.

One JSON line in, one out; it ends with its keeper.

    {"do": task}                                      {"result": 7, "samples": 640, "seconds": 1.2, "loss": 0.4, "fetching": 0}
    {"put back": {"run", "about", "results": [7]}}    {"put back": [7]}
    {"forget": {"run", "results": [7]}}               {"forget": [7]}
    {"whole": task}                                   {"whole": true}
Whatever goes wrong is {"error": text, "code": "L601"}; the keeper gives the task back. The code "memory" is for too little of it; with
"L301", for a full disk, it tries again when there is room.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.grid.node.sources import BY_NAME

LOOK: Final = 1.0  # seconds between looks whether the keeper is there, where that is not told


def main() -> None:
    home, threads, share, memory = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])  # 0: any
    kernels = Path(sys.argv[6]) if len(sys.argv) > 6 else None
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    import torch

    from laminar.core.atomic import explaining_os_errors
    from laminar.core.errors import LaminarError
    from laminar.core.heap import keep_freed_memory
    from laminar.grid.node.home import Home
    from laminar.grid.node.limits import PRIVATE
    from laminar.grid.node.memory_limit import CODE, MemoryLimit
    from laminar.grid.node.worker import Worker
    from laminar.grid.wire.messages import Task
    from laminar.parallel.crew import die_with

    die_with(os.getppid())
    keep_freed_memory()
    torch.set_num_threads(threads)
    worker, limit = Worker(Home(home), kernels, allow_private=sys.argv[5] == PRIVATE), MemoryLimit(memory or None, threads)
    pace = Pace(share)
    _say(out, {"ready": str(torch.__version__)})
    _give_up_the_rest(home, kernels)
    for line in sys.stdin.buffer:
        asked: dict[str, Any] = msgspec.json.decode(line)
        try:
            with explaining_os_errors(home):
                if "do" in asked:
                    limit.renew()
                    said = worker.do(msgspec.convert(asked["do"], Task), pace.pause)
                elif "put back" in asked:
                    worker.put_back(**asked["put back"])
                    said = {"put back": asked["put back"]["results"]}
                elif "forget" in asked:
                    worker.forget(**asked["forget"])
                    said = {"forget": asked["forget"]["results"]}
                else:
                    said = {"whole": worker.whole(msgspec.convert(asked["whole"], Task))}
        except LaminarError as error:
            said = {"error": error.message, "code": error.code}
        except Exception as error:
            short = limit.said(error)
            said = {"error": short, "code": CODE} if short else {"error": f"{type(error).__name__}: {error}", "code": ""}
        _say(out, said)


def _give_up_the_rest(home: Path, kernels: Path | None) -> set[str]:
    """The graphs come from strangers: no programs, and no files but the node's own and those of data sets. The network stays: data comes
    over it, by names and addresses that the owner allows (sources.py). Compiled kernels of the cache can be read, not written."""
    from laminar.core.confine import confine
    from laminar.data.sources.places import cache_folder

    kept = [cache_folder() / name for name in (*BY_NAME, "files", "indexes")]
    for folder in kept:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    readable = [Path("/etc"), cache_folder(), *([kernels] if kernels is not None else [])]
    if shared := os.environ.get("LAMINAR_DATA"):
        readable.append(Path(shared))
    return confine(files=readable, writable=[home, Path(tempfile.gettempdir()), *kept], network=True)


def _say(out: int, said: dict[str, Any]) -> None:
    line = msgspec.json.encode(said) + b"\n"
    while line:
        line = line[os.write(out, line) :]


class Pace:
    """Works a share of the time: after a step it sleeps as long as the rest of the share says."""

    def __init__(self, share: float) -> None:
        self._share, self._last, self._parent = share, time.monotonic(), os.getppid()
        self._look = self._last + LOOK

    def pause(self) -> None:
        if self._orphaned():
            os._exit(0)  # nobody minds the owner any more
        if self._share < 1:
            worked = time.monotonic() - self._last
            time.sleep(worked * (1 / self._share - 1))
        self._last = time.monotonic()

    def _orphaned(self) -> bool:
        """A process whose parent is gone gets another one; on Windows it keeps the number of the old."""
        if os.getppid() != self._parent:
            return True
        if os.name == "posix" or time.monotonic() < self._look:
            return False
        import psutil

        self._look = time.monotonic() + LOOK
        return not psutil.pid_exists(self._parent)


if __name__ == "__main__":
    main()
