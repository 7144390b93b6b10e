"""Processes that are ended by their numbers, with all that they started, however a benchmark ends. No claim: for a grid and its peers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

Process = subprocess.Popen[Any]
LOOK = 2.0  # seconds between looks at what processes have used
LIMIT = 1800.0  # seconds after which whatever is waited for will not come any more


class Processes:
    """Commands in a folder, by name. What they say goes to a file of that name."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None) -> None:
        self.folder = folder
        self.env = env
        self.all: dict[str, Process] = {}
        self.used: list[tuple[float, float]] = []  # while something is waited for: when, and processor seconds of all by then

    def start(self, name: str, words: list[str], stdout: int | None = None, env: dict[str, str] | None = None) -> Process:
        """`env`: variables beside those of all."""
        with self.log(name).open("wb") as log:
            # A session of its own: Ctrl-C is for the benchmark alone, which then ends everything in order.
            how: dict[str, Any] = {"cwd": self.folder, "stdin": subprocess.DEVNULL, "start_new_session": True}
            how["env"] = {**(os.environ if self.env is None else self.env), **(env or {})}
            self.all[name] = subprocess.Popen(words, stdout=stdout or log, stderr=log, **how)
        return self.all[name]

    def wait(self, name: str, beside: list[str]) -> None:
        """Until a command is done. Whoever works beside it must live till then, or nobody would ever answer."""
        until, look = time.monotonic() + LIMIT, 0.0
        while self.all[name].poll() is None:
            if time.monotonic() >= look:
                look = time.monotonic() + LOOK
                self.used.append((time.time(), self._processor_seconds()))
            if time.monotonic() > until:
                raise SystemExit(f"{name} was not done after {LIMIT:.0f} s. Its last words:\n{self.last_words(name)}")
            for one in beside:
                if self.all[one].poll() is not None:
                    raise SystemExit(f"{one} ended with {self.all[one].returncode}. Its last words:\n{self.last_words(one)}")
            time.sleep(0.1)
        if self.all[name].returncode:
            raise SystemExit(f"{name} ended with {self.all[name].returncode}. Its last words:\n{self.last_words(name)}")

    def _processor_seconds(self) -> float:
        """Of all, and of those that they started, ended ones too. All processes are gone through once: that costs least."""
        ours, total = {process.pid for process in self.all.values()}, 0.0
        for one in psutil.process_iter(["pid", "ppid", "cpu_times"]):  # who was started comes after who started it
            if (one.info["pid"] in ours or one.info["ppid"] in ours) and one.info["cpu_times"] is not None:
                ours.add(one.info["pid"])
                total += sum(one.info["cpu_times"][:4])  # user, system, and these of children that have ended
        return total

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def last_words(self, name: str) -> str:
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-20:])

    def end(self) -> None:
        everyone: list[psutil.Process] = []
        for process in self.all.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.poll() is None:
                    one = psutil.Process(process.pid)
                    everyone += [one, *one.children(recursive=True)]
        for one in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.terminate()
        for one in psutil.wait_procs(everyone, timeout=20)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        for process in self.all.values():
            process.wait()


@contextlib.contextmanager
def processes(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Processes]:
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else nothing below would run
    own = Processes(folder, env)
    try:
        yield own
    finally:
        own.end()
        signal.signal(signal.SIGTERM, before)
