"""A grid on this machine: a server, nodes, and where images are fetched a mirror, each a process of its own. Trials are trained on it in a
store of its own, so that it begins with nothing; what was trained is then brought into that of the experiment."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
import psutil
import tomlkit

from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.experiments.heard import events_of, hear
from laminar.grid.node.token_given import VARIABLE
from laminar.stack.project import STORE
from laminar.stack.read import FILE
from laminar.store.remote import Remote, fetch
from laminar.store.store import Store
from laminar.train.history import EVENTS

LEAVING: Final = 30.0  # seconds that a process may take to end
FASTEST: Final = 0.32  # of a core, that the fastest of nodes with different speeds has
Process = subprocess.Popen[Any]


def laminar(*words: str) -> list[str]:
    return [sys.executable, "-m", "laminar", *words]


@contextlib.contextmanager
def serving(*words: str, cwd: Path) -> Iterator[dict[str, Any]]:
    """A command that serves, and the line in which it says where."""
    with tempfile.TemporaryFile("w+") as said:
        started = subprocess.Popen(laminar(*words), cwd=cwd, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert started.stdout is not None
            line = started.stdout.readline()
            if not line:
                started.wait(LEAVING)
                said.seek(0)
                raise LaminarError("L501", f"`laminar {' '.join(words[:2])}` ended at once: {said.read().strip()}", hint="laminar doctor")
            yield json.loads(line)
        finally:
            end([started])


def end(started: list[Process]) -> None:
    for one in started:
        one.terminate()
    for one in started:
        try:
            one.wait(LEAVING)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
        if one.stdout is not None:
            one.stdout.close()


def shares_of(speeds: Sequence[float], cores: int) -> tuple[str, ...]:
    """`--cpu` for nodes of these speeds against each other on one machine: the fastest has a third of a core, so that none waits for a
    processor; on machines with many cores as much more as a share of 1 % is for the slowest."""
    most = max(100 * FASTEST / cores, max(speeds) / min(speeds))
    return tuple(f"{most * speed / max(speeds):g}%" for speed in speeds)


@contextlib.contextmanager
def grid_of(folder: Path, nodes: int, *words: str, speeds: Sequence[float] = ()) -> Iterator[None]:
    """So many nodes, in the grid that is served from `folder`. `words`: more that their owners say. `speeds`: against each other; none:
    each has half of the processors."""
    cpu = shares_of(speeds, psutil.cpu_count() or 1) if speeds else ("50%",) * nodes
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with serving("grid", "serve", "--port", "0", "--json", cwd=folder) as told:
        joined: list[Process] = []
        try:
            for i in range(nodes):
                how = ["--name", f"n{i}", "--home", str(folder / f"n{i}"), "--cpu", cpu[i], *words]
                environment = {**os.environ, VARIABLE: told["token"]}
                joined.append(subprocess.Popen(laminar("grid", "join", told["url"], *how), cwd=folder, env=environment, **silent))
            yield
        finally:
            end(joined)


def train_on(folder: Path, layer: str, began: Callable[[Process], None] = lambda _: None) -> dict[str, Any]:
    """What came of training a layer of the stack in `folder` on the grid that is served there. `began` is told of who waits for it."""
    start = time.monotonic()
    words = laminar("grid", "train", layer, "-q", "--json")
    waiting = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began(waiting)
    out, said = waiting.communicate()
    if waiting.returncode:
        raise LaminarError("L501", f"the grid did not train {layer}: {said.strip()}", hint="laminar doctor")
    seconds = time.monotonic() - start
    status = subprocess.run(laminar("grid", "status", "--json"), cwd=folder, capture_output=True, text=True, check=True)
    (built,) = json.loads(out)["layers"]
    return {"metrics": built["metrics"], "seconds": seconds, "run": json.loads(status.stdout)["runs"][-1], "key": built["key"]}


def train(folder: Path, layer: str, nodes: int, *words: str) -> dict[str, Any]:
    """On a grid that is there for this training alone."""
    with grid_of(folder, nodes, *words):
        return train_on(folder, layer)


@final
class GridTrainer:
    """Trains trials as run.py's processes do, each on a grid of its own; if `shared`, all that want as many nodes on one."""

    def __init__(self, *words: str, shared: bool = False, speeds: Sequence[float] = ()) -> None:
        """`words`: more that the owners of nodes say. `speeds`: of the nodes, against each other."""
        self._words, self._shared, self._speeds = words, shared, speeds
        self._waiting: Process | None = None
        self._lock = threading.Lock()
        self._left = False
        self._held = contextlib.ExitStack()
        self._grid: tuple[int, Path] | None = None  # nodes, folder

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> dict[str, Any]:  # noqa: ARG002
        if on_ready is not None:
            on_ready()
        started, clock, raw = time.time(), time.monotonic(), asked["file"]["raw"]
        nodes = next(layer for layer in raw["layer"] if layer["name"] == asked["layer"])["train"]["strategy"]["workers"]
        try:
            folder = self._serve(nodes, tomlkit.dumps(raw))
            found = train_on(folder, asked["layer"], self._began)
            kept = _keep(Store.open(folder / STORE, create=False), Store.open(Path(asked["store"]), create=False), found["key"])
        except LaminarError as error:
            if self._left:
                return {"interrupted": True}
            return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        finally:
            if not self._shared:
                self.close()
        run = found["run"]
        figures = {"bytes": run["bytes"]["up"], "staleness": run["staleness"], "iterations": run["version"]}
        figures |= {part: run["utilization"][part] for part in ("computing", "waiting", "wasted", "nodes")}
        figures |= {f"local_{side}": count for side, count in run["samples"].items()}
        done = kept | {
            "started": started,
            "wall": time.monotonic() - clock,
            "seconds": found["seconds"],
            "metrics": found["metrics"] | {name: float(value) for name, value in figures.items()},
            "team": {"workers": nodes, "steps": run["version"], "answers": run["answers"], "dense_bytes": run["bytes"]["dense"]},
        }
        return {"done": done}

    def _serve(self, nodes: int, stack: str) -> Path:
        """The folder of a grid with so many nodes, in which this stack is written."""
        if self._grid is not None and self._grid[0] == nodes:
            (self._grid[1] / FILE).write_text(stack, encoding="utf-8")
            return self._grid[1]
        self.close()
        folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="laminar-grid-", ignore_cleanup_errors=True)))
        (folder / FILE).write_text(stack, encoding="utf-8")
        self._held.enter_context(grid_of(folder, nodes, *self._words, speeds=self._speeds))
        self._grid = nodes, folder
        return folder

    def _began(self, waiting: Process) -> None:
        with self._lock:
            self._waiting = waiting
            if self._left:
                waiting.terminate()

    def interrupt(self) -> None:
        with self._lock:
            self._left = True
            if self._waiting is not None:
                self._waiting.terminate()

    def close(self) -> None:
        self._grid = None
        self._held.close()


def _keep(own: Store, store: Store, key: str) -> dict[str, Any]:
    """The layer comes into the experiment's store, and its curve into the trial."""
    record = own.record(key)
    assert record is not None
    with Remote.at(str(own.root)) as place:  # a store is laid out as a remote is
        fetch(store, place, f"{record.stack}/{record.name}", pin=record.id, remember=False)
    heard = hear(events_of(own.layout.run(record.run) / EVENTS))
    return {"layer": record.id, "curve": msgspec.to_builtins(heard.curve), "series": msgspec.to_builtins(heard.series)}
