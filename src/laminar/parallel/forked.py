"""Processes that a nursery forks (nursery.py): how it is started, and what they are to whoever asked for them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

from laminar.core import interrupts
from laminar.core.scratch import scratch

MODULE: Final = "laminar.parallel.nursery"
NUMBER: Final = struct.Struct("!i")
ANSWERING: Final = 8.0  # seconds for a fork: less than a chief waits for an agent's next word


@final
class Nursery:
    """A context, of the chief."""

    def __init__(self) -> None:
        self._address, self._ready, self._bell = "", False, -1
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        if sys.platform != "linux":
            return
        self._folder = scratch("laminar-nursery-")  # ours alone
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(address := str(self._folder / "line"))
                listener.listen()
            except OSError:  # a path that is too long for a socket
                return
            self._bell, rope = os.pipe()
            words = [sys.executable, "-m", MODULE, str(listener.fileno()), str(rope), str(os.getpid())]
            with interrupts.held_back():  # also for those that it forks
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[listener.fileno(), rope],
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
            os.close(rope)
            self._address = address

    @property
    def loading(self) -> bool:
        if self._bell >= 0 and select.select([self._bell], [], [], 0)[0]:
            self._ready = bool(os.read(self._bell, 1))  # else it has ended
            os.close(self._bell)
            self._bell = -1
        return self._bell >= 0

    @property
    def address(self) -> str:
        """Empty where there is none, or not yet."""
        return self._address if not self.loading and self._ready else ""

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@final
class Forked:
    """As far as a crew needs it, what subprocess.Popen is for processes that are children."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line, self.pid = line, pid
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._line.send(bytes([number]))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                told = number_from(self._line, timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0) from None
            # A nursery that is gone has taken it along.
            self.returncode = told if told is not None else -signal.SIGKILL
            self._line.close()
        return self.returncode


def fork(address: str, module: str, brief: Mapping[str, Any], environment: Mapping[str, str], pipe: int) -> Forked | None:
    """A process that runs `main` of a module; None if there is no nursery, or none that answers."""
    line = socket.socket(socket.AF_UNIX)
    request = {"module": module, "brief": dict(brief), "environment": os.environ | environment, "folder": os.getcwd()}
    data = json.dumps(request).encode()
    try:
        line.settimeout(ANSWERING)
        line.connect(address)
        socket.send_fds(line, [NUMBER.pack(len(data))], [pipe, 2])
        line.sendall(data)
        pid = number_from(line, ANSWERING)
    except OSError:  # also TimeoutError
        pid = None
    if pid is None:
        line.close()
        return None
    return Forked(line, pid)


def number_from(line: socket.socket, timeout: float | None) -> int | None:
    """None if the line has ended."""
    line.settimeout(timeout)
    try:
        data = line.recv(NUMBER.size, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else None
