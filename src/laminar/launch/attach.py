"""Attach: a build on a cluster goes on when the terminal it was started from is gone, and can be watched from another one.

While a run is under way its folder has two hidden files: who its chief is, and what listeners were told. They go when it is over. When
the chief is gone but the run is not done, whoever attaches becomes its chief: the training goes on from its checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.events import Emit, Event
from laminar.core.nearest import did_you_mean
from laminar.store.runs import FINISHED
from laminar.store.store import Store

CHIEF, LIVE, LOG = ".chief.json", ".live.jsonl", ".output.log"
LOOK: Final = 0.25  # seconds between looks at a file
QUIET: Final = 60.0  # seconds after which a chief on another machine that tells nothing is taken for gone


@dataclass(frozen=True)
class Run:
    """A run that has a chief, or had one."""

    name: str
    folder: Path
    layer: str
    pid: int
    host: str
    began: float  # of the process
    options: dict[str, Any]  # of its command: where it runs, and by which strategy

    def under_way(self) -> bool:
        if self.host == socket.gethostname():
            return _began(self.pid) == self.began
        with contextlib.suppress(OSError):
            return time.time() - (self.folder / LIVE).stat().st_mtime < QUIET
        return False

    def given_up(self) -> bool:
        """Has its chief ended it without a layer: failed, or interrupted? One that was killed has not."""
        return not self.finished() and not (self.folder / CHIEF).exists()

    def finished(self) -> bool:
        return (self.folder / FINISHED).exists()


@contextlib.contextmanager
def watched(folder: Path, layer: str, emit: Emit, options: Mapping[str, Any]) -> Iterator[Emit]:
    """While this lasts, the run can be attached to; the events that are emitted are also told to whoever is. `options`: of the command."""
    pid = os.getpid()
    about = {"layer": layer, "pid": pid, "host": socket.gethostname(), "began": _began(pid), "options": dict(options)}
    atomic.write_bytes(folder / CHIEF, json.dumps(about).encode())
    try:
        with open(folder / LIVE, "w", buffering=1, encoding="utf-8") as live:

            def tell(event: Event) -> None:
                live.write(json.dumps(event) + "\n")
                emit(event)

            yield tell
        (folder / LOG).unlink(missing_ok=True)  # after a failure it says why
    finally:
        for name in (CHIEF, LIVE):
            (folder / name).unlink(missing_ok=True)


def runs(store: Store) -> list[Run]:
    """Runs on clusters that are not over, the newest first; also those whose chief is gone."""
    found: list[tuple[float, Run]] = []
    for path in store.layout.runs.glob(f"*/{CHIEF}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            told = json.loads(path.read_bytes())
            run = Run(path.parent.name, path.parent, told["layer"], told["pid"], told["host"], told["began"], told["options"])
            found.append((path.stat().st_mtime, run))
    return [run for _, run in sorted(found, key=lambda one: -one[0])]


def find(store: Store, name: str) -> Run:
    """By the first letters of its name, or by its layer. L006 if there is none."""
    known = runs(store)
    found = [run for run in known if run.name.startswith(name) or run.layer == name]
    if not found:
        others = did_you_mean(name, [run.name for run in known]) if known else "none is"
        raise LaminarError(
            "L006",
            f"no run '{name}' on a cluster is under way; {others}",
            hint="laminar build --on … starts one; laminar build goes on from the checkpoint of one that was stopped",
        )
    return found[0]


def follow(run: Run) -> Iterator[Event]:
    """What its chief tells, until the run is done or given up, or the chief is gone."""
    yield {"event": "layer", "layer": run.layer, "number": 0, "of": 1}
    rest, at = "", 0
    while True:
        alive = run.under_way()  # before reading: what it told last is not to be missed
        with contextlib.suppress(FileNotFoundError), open(run.folder / LIVE, encoding="utf-8") as file:
            file.seek(at)
            *lines, rest = (rest + file.read()).split("\n")
            at = file.tell()
            yield from _some([json.loads(line) for line in lines])
        if run.finished() or not alive:
            return
        time.sleep(LOOK)


def _some(events: list[Event]) -> Iterator[Event]:
    """Of the steps that came since the last look, only the last."""
    for i, event in enumerate(events):
        if event["event"] != "step" or i + 1 == len(events) or events[i + 1]["event"] != "step":
            yield event


def survive_hangup(folder: Callable[[], Path | None]) -> None:
    """When the terminal goes, go on; what would be shown there is written to a file in the folder of the run, once there is one."""

    def on_hangup(*_: Any) -> None:
        here = folder()
        log = os.open(os.devnull if here is None else here / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)

    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # not in the main thread: then somebody else looks after signals
            signal.signal(signal.SIGHUP, on_hangup)


def _began(pid: int) -> float | None:
    """When the process was started, in whatever unit the system counts; None if there is none: numbers are used again."""
    if Path("/proc/self/stat").exists():
        try:
            return float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        except (OSError, IndexError, ValueError):
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0.0
