"""The process that computes: `python -P -m laminar.grid.node.worker_process HOME THREADS SHARE MEMORY [KERNELS]`.

It runs graphs of strangers: it has no network, and opens no data. What a task needs is on the disk (supplies.py, data_process.py). One JSON
line in, one out; it ends with its keeper.

    {"do": task}                                      {"result": 7, "samples": 640, "seconds": 1.2, "loss": 0.4}
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
from pathlib import Path
from typing import Any

import msgspec


def main() -> None:
    from laminar.grid.node.child import own_output

    home, threads, share, memory = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])  # 0: any
    kernels = Path(sys.argv[5]) if len(sys.argv) > 5 else None
    out = own_output()
    import torch

    from laminar.core.heap import keep_freed_memory
    from laminar.grid.node.child import Pace, say, serve
    from laminar.grid.node.home import Home
    from laminar.grid.node.memory_limit import MemoryLimit
    from laminar.grid.node.worker import Worker
    from laminar.grid.wire.messages import Task
    from laminar.parallel.crew import die_with

    die_with(os.getppid())
    keep_freed_memory()
    _give_up_the_rest(home, kernels)  # before torch has threads
    torch.set_num_threads(threads)
    worker, limit = Worker(Home(home), kernels), MemoryLimit(memory or None, threads)
    pace = Pace(share)
    say(out, {"ready": str(torch.__version__)})

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if "do" in asked:
            limit.renew()
            return worker.do(msgspec.convert(asked["do"], Task), pace.pause)
        if "put back" in asked:
            worker.put_back(**asked["put back"])
            return {"put back": asked["put back"]["results"]}
        if "forget" in asked:
            worker.forget(**asked["forget"])
            return {"forget": asked["forget"]["results"]}
        return {"whole": worker.whole(msgspec.convert(asked["whole"], Task))}

    serve(out, home, limit, answer)


def _give_up_the_rest(home: Path, kernels: Path | None) -> set[str]:
    """No programs, no network, and of the files only what tasks need: the node's key is not among them. Compiled kernels of the cache can
    be read, not written."""
    from laminar.core.confine import confine
    from laminar.data.sources.places import cache_folder

    readable = [*(home / name for name in ("files", "versions", "opened")), cache_folder() / "kernels"]
    writable = [home / name for name in ("answers", "halfway", "residuals")]
    for folder in writable:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    return confine(files=[*readable, *([kernels] if kernels is not None else [])], writable=writable)


if __name__ == "__main__":
    main()
