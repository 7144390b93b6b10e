"""A grid for tests: its server in a thread of this process, or as a command of its own; nodes as commands."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from laminar.grid.commander import Commander
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.server.serve import GridServer, Options
from tests import warm


@contextlib.contextmanager
def serving(folder: Path, clock: Callable[[], float] = time.time, **more: Any) -> Iterator[tuple[GridServer, str]]:
    """The server and its address."""
    server = GridServer(Options(folder, "test", port=0, **more), TorchLearner(), clock)
    ready: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    thread = threading.Thread(target=server.run, args=(ready.put,))
    thread.start()
    try:
        yield server, ready.get(timeout=30)["url"]
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


class Commands:
    """`laminar grid …` in a project's folder. Whatever was started is ended with the block."""

    def __init__(self, folder: Path, before: Sequence[str] = ()) -> None:
        """`before`: words before the server's."""
        self.folder, self.before = folder, before
        self.root = folder  # as the server sees it
        self.told: dict[str, str] = {}
        self.trained = ""  # what a training has printed
        self._processes: list[Any] = []

    def _start(self, *words: str, before: Sequence[str] = (), more_environment: dict[str, str] | None = None, **more: Any) -> Any:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(more_environment or {})}
        start = subprocess.Popen if before else warm.Popen
        process = start([*before, sys.executable, "-m", "laminar", *words], cwd=self.folder, env=environment, text=True, **more)
        self._processes.append(process)
        return process

    def serve(self, *words: str) -> Any:
        words = ("grid", "serve", "--json", *(words or ("--port", "0")))
        process = self._start(*words, before=self.before, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        self.told = json.loads(line)
        return process

    def join(self, name: str, *words: str, before: Sequence[str] = ()) -> Any:
        how = ["--key", self.told["key"], "--name", name, "--home", str(self.folder / name), "--cpu", "50%"]
        words = ("grid", "join", self.told["url"], *how, *words)
        token = {"LAMINAR_JOIN_TOKEN": self.told["token"]}
        return self._start(*words, before=before, more_environment=token, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "laminar", *words]
        return warm.run(command, cwd=self.folder, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)

    def train(self, *words: str) -> Any:
        return self._start("grid", "train", "-q", "--json", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, path: str) -> Any:
        secrets = json.loads((self.root / ".laminar" / "grid" / "secrets.json").read_text())
        commander = Commander(self.told["url"], secrets["admin"])
        try:
            return commander.get(path)
        finally:
            commander.close()

    def wait_for(self, what: Any, timeout: float = 90.0) -> None:
        until = time.monotonic() + timeout
        while not what():
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.05)

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@contextlib.contextmanager
def commands(folder: Path, before: Sequence[str] = ()) -> Iterator[Commands]:
    made = Commands(folder, before)
    try:
        yield made
    finally:
        made.end()
