"""Computer: a process that works for the keeper (worker_process.py, or data_process.py), as the keeper has it."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
import psutil

from laminar.core import interrupts
from laminar.core.confine import few_variables
from laminar.grid.node.limits import Limits
from laminar.grid.node.memory_limit import CODE, held, too_much

NEW_GROUP: Final = 0x200  # CREATE_NEW_PROCESS_GROUP of Windows
LAUNCHED: Final = os.name == "nt"  # python.exe of a venv starts another one, which is the process that computes


@final
class Computer:
    """Started when there is work, and again when it has died. It can be stopped at any moment, and go on."""

    def __init__(
        self,
        home: Path,
        limits: Limits,
        words: Sequence[str] = (),
        *,
        module: str = "laminar.grid.node.worker_process",
        variables: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`words` come last on its command line. Of our variables it gets few, those whose names begin as one of `variables`, and
        `environment`."""
        self._home, self._limits, self._words, self._module = home, limits, words, module
        self._variables, self._environment = variables, environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self.torch = ""
        self._ended: tuple[str, str] | None = None  # why it was ended, and the code of that
        self._held = 0  # bytes, when it was last looked at

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        if self.pid is not None:
            return
        self._hang_up()
        cores = psutil.cpu_count() or 1
        threads = max(1, int(cores * self._limits.cpu))
        share = min(1.0, cores * self._limits.cpu / threads)
        words = [sys.executable, "-P", "-m", self._module]  # -P: a random.py of the folder we are in is no library
        words += [str(self._home), str(threads), str(share), str(self._limits.memory or 0), *self._words]
        self._ended = None
        environment = {**few_variables(self._variables), **self._environment, "OMP_NUM_THREADS": str(threads)}
        self._lines = queue.SimpleQueue()
        # in a session of its own: Ctrl-C is for the keeper
        apart: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {"creationflags": NEW_GROUP}
        with interrupts.held_back():
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, **apart)
        self._reader = threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True)
        self._reader.start()

    @staticmethod
    def _read(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def ask(self, asked: dict[str, Any]) -> None:
        self.start()
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has died: `answer` says so
            self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
            self._process.stdin.flush()

    def answer(self, timeout: float) -> dict[str, Any] | None:
        """What it says; None: not yet. A process that has died says an error."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        if line is None:
            code = self._process.wait() if self._process is not None else None
            self._hang_up()
            why, kind = self._ended or (f"the computing process ended with {code}", "died")
            if code == -9 and self._ended is None and self._limits.memory is not None and self._held > self._limits.memory // 2:
                why, kind = too_much(self._limits.memory), CODE  # a system that is short of memory ends whoever has most
            return {"error": why, "code": kind}
        said: dict[str, Any] = msgspec.json.decode(line)
        if "ready" in said:
            self.torch = said["ready"]
            return self.answer(timeout)
        return said

    def rest(self, resting: bool) -> None:
        """Stop it where it is, or let it go on."""
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                process.suspend() if resting else process.resume()

    def memory(self) -> int:
        try:
            self._held = sum(map(held, self._all()))
        except psutil.Error:
            return 0
        return self._held

    def _all(self) -> list[psutil.Process]:
        if self.pid is None:
            return []
        try:
            process = psutil.Process(self.pid)
            return [process, *(process.children(recursive=True) if LAUNCHED else [])]
        except psutil.Error:
            return []

    def end(self, why: str = "", code: str = "died") -> None:
        if self._process is not None:
            self._ended = (why, code) if why else None
            self.rest(False)
            self._process.kill()
            self._process.wait()
            self._hang_up()

    def _hang_up(self) -> None:
        """It has ended."""
        if self._reader is not None:
            self._reader.join(5)
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # what nobody reads any more
                    if pipe is not None:
                        pipe.close()
        self._process = self._reader = None
