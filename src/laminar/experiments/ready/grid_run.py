"""A grid on this machine for one training: a server, nodes, and where images are fetched a mirror, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, final

import tomlkit

from laminar.core.errors import LaminarError
from laminar.core.events import Emit

LEAVING: Final = 30.0  # seconds that a process may take to end
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


def train(folder: Path, layer: str, nodes: int, began: Callable[[Process], None] = lambda _: None) -> dict[str, Any]:
    """What came of training a layer of the stack in `folder` on a grid with so many nodes. `began` is told of who waits for it."""
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with serving("grid", "serve", "--port", "0", "--json", cwd=folder) as told:
        joined: list[Process] = []
        try:
            for i in range(nodes):
                how = ["--token", told["token"], "--name", f"n{i}", "--home", str(folder / f"n{i}"), "--cpu", "50%"]
                joined.append(subprocess.Popen(laminar("grid", "join", told["url"], *how), cwd=folder, **silent))
            start = time.monotonic()
            words = laminar("grid", "train", layer, "-q", "--json")
            waiting = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            began(waiting)
            out, said = waiting.communicate()
            if waiting.returncode:
                raise LaminarError("L501", f"the grid did not train {layer}: {said.strip()}", hint="laminar doctor")
            seconds = time.monotonic() - start
            status = subprocess.run(laminar("grid", "status", "--json"), cwd=folder, capture_output=True, text=True, check=True)
        finally:
            end(joined)
    (built,) = json.loads(out)["layers"]
    return {"metrics": built["metrics"], "seconds": seconds, "run": json.loads(status.stdout)["runs"][-1]}


@final
class GridTrainer:
    """Trains trials as run.py's processes do, each on a grid of its own, in a store that is gone with it."""

    def __init__(self) -> None:
        self._waiting: Process | None = None
        self._lock = threading.Lock()
        self._left = False

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> dict[str, Any]:  # noqa: ARG002
        if on_ready is not None:
            on_ready()
        started, clock, raw = time.time(), time.monotonic(), asked["file"]["raw"]
        nodes = next(layer for layer in raw["layer"] if layer["name"] == asked["layer"])["train"]["strategy"]["workers"]
        try:
            with tempfile.TemporaryDirectory(prefix="laminar-grid-") as name:
                (Path(name) / "laminar.toml").write_text(tomlkit.dumps(raw), encoding="utf-8")
                found = train(Path(name), asked["layer"], nodes, self._began)
        except LaminarError as error:
            if self._left:
                return {"interrupted": True}
            return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        run = found["run"]
        done = {
            "started": started,
            "wall": time.monotonic() - clock,
            "seconds": found["seconds"],
            "metrics": found["metrics"] | {"bytes": float(run["bytes"]["up"]), "staleness": float(run["staleness"])},
            "team": {"workers": nodes, "steps": run["version"], "answers": run["answers"], "dense_bytes": run["bytes"]["dense"]},
        }
        return {"done": done}

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
        """Nothing outlives a trial."""
