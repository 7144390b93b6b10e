"""An invitation: a file in the folder of a run under way with all that another worker must know to take part in it.

Whoever may read it may train with the others and see the parameters, so only its owner may. It goes when the training ends; one that a
killed build has left behind leads nowhere, and is passed over. Who has written it holds a lock beside it, which its death frees: so a
worker that was invited knows on the same machine that nobody will answer any more. No torch here.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.parallel.wire.addresses import connect
from laminar.parallel.wire.frames import Gone
from laminar.store.locks import holding, is_free
from laminar.store.runs import APART
from laminar.store.store import Store

FILE: Final = "join.json"
LOCK: Final = "join.lock"
PATIENCE: Final = 2.0  # seconds for a server to take a call


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """While an invitation may be written, and until it is gone."""
    with holding(folder / LOCK):
        try:
            yield
        finally:
            (folder / FILE).unlink(missing_ok=True)


def write(folder: Path, told: Mapping[str, Any]) -> Path:
    path = folder / FILE
    beside = path.with_suffix(".part")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({**told, "host": socket.gethostname(), "pid": os.getpid()}, file)
    os.replace(beside, path)
    return path


def holds(told: Mapping[str, Any]) -> bool:
    """Is it still that of its training? Not once that has ended or was killed, nor when another build goes on with it."""
    folder = Path(told["folder"])
    try:
        found = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # nobody knows
        return True
    if found["token"] != told["token"]:
        return False
    # Folders that machines share may have locks for each machine by itself: elsewhere, one that is free says nothing.
    return bool(found["host"] != socket.gethostname() or not is_free(folder / LOCK))


def find(store: Store, run: str | None = None) -> tuple[str, dict[str, Any]]:
    """The run (a few of its first letters are enough) and its invitation; without a name, the newest under way. L006 if there is none."""
    files = sorted(store.layout.runs.glob(f"*/{APART}/{FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    open_ones: dict[str, dict[str, Any]] = {}
    for path in files:
        with contextlib.suppress(OSError, ValueError, KeyError, Gone):
            told = json.loads(path.read_bytes())
            if not holds({**told, "folder": path.parent}):  # somebody else may have its port by now
                continue
            connect(told["addresses"][0], PATIENCE).close()
            open_ones[path.parent.parent.name] = told
    found = [name for name in open_ones if run is None or name.startswith(run)]
    if not found:
        others = "" if run is None else f"; {did_you_mean(run, open_ones)}" if open_ones else "; none is"
        raise LaminarError(
            "L006",
            f"no training {'under way' if run is None else f'{run!r} is under way'} that a worker could join here{others}",
            hint="laminar build --strategy downpour in another terminal; a training by one process or by sync cannot be joined",
        )
    return found[0], open_ones[found[0]]
