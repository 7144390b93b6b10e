"""The other end of trial_child.py: a process that trains trials, kept for many of them, and started again when one of them killed it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any, Final, final

import msgspec

from laminar.core.events import Emit
from laminar.experiments.heard import plain_error

ENDING: Final = 30.0  # seconds to write a checkpoint, after being asked to stop
LINES: Final = 5  # of what a process that died said last
Answer = dict[str, Any]


@final
class TrialProcess:
    """`ask` is for one thread at a time; `interrupt` may come from any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: IO[bytes] | None = None
        self._said: IO[bytes] | None = None  # its standard error
        self._ready: int | None = None  # the process that has loaded everything
        self._timer: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        if self.pid is not None:
            return
        self._hang_up()
        read, write = os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "laminar.experiments.trial_child", str(write)],
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            pass_fds=[write],
            start_new_session=True,  # Ctrl-C is for the runner, who says what is to be done
        )
        os.close(write)
        self._pipe = open(read, "rb")  # noqa: SIM115

    def ask(self, asked: dict[str, Any], emit: Emit, *, on_ready: Callable[[], None] | None = None) -> Answer:
        """Its last word on the trial; a process that died says an error. `on_ready` is called when it begins."""
        self.start()
        assert self._process is not None and self._process.stdin is not None and self._pipe is not None
        if on_ready is not None and self._ready == self._process.pid:
            on_ready()
        with contextlib.suppress(OSError):  # it has died: reading says so
            self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
            self._process.stdin.flush()
        for line in self._pipe:
            try:
                said: Answer = msgspec.json.decode(line)
            except msgspec.DecodeError:  # an interrupt cut it short
                continue
            if "event" in said:
                emit(said["event"])
            elif "ready" in said:
                self._ready = self._process.pid
                if on_ready is not None:
                    on_ready()
            else:
                return said
        code = self._process.wait()
        last = self._last_words()
        self._hang_up()
        return {"error": plain_error("L611", f"the process that trained it {_ended(code)}{last}", "run it alone: laminar build LAYER")}

    def interrupt(self) -> None:
        """As Ctrl-C: the trial keeps a checkpoint and answers; if it does not, it is killed after a while."""
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            timer = threading.Timer(ENDING, process.kill)
            timer.daemon = True
            timer.start()
            self._timer = timer

    def close(self) -> None:
        """An idle process ends by itself when its input does; one that does not is killed."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for file in (self._pipe, self._said, self._process.stdin if self._process is not None else None):
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()
        self._process = self._pipe = self._said = None

    def _last_words(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0, os.SEEK_END)
        size = self._said.tell()
        self._said.seek(max(0, size - 4000))
        lines = [line.strip() for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        return "; it said last: " + " | ".join(lines[-LINES:]) if lines else ""


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
