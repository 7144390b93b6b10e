"""A nursery: a process of the chief's machine that has loaded what workers need, and forks workers for others on that machine.

An engine that starts its whole cluster on this machine has an agent for every worker. Each of them would load torch for its own, seconds
after the engine is up, on cores that they share. So one process loads it meanwhile, once.

    agent -> nursery    {"module", "brief", "environment", "folder"}, with two open files: the pipe to speak by, and one for what is printed
    nursery -> agent    its number, and at the end its exit code
    agent -> nursery    numbers of signals, a byte each

One line for each process: when it ends, because the agent has died, so does the process. All die with the nursery, and that with the chief.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
from typing import Any, Final, NoReturn, final

from laminar.parallel import crew, spare
from laminar.parallel.forked import NUMBER

FILES: Final = 2
PATIENCE: Final = 5.0  # seconds for the rest of a request
RANDOM: Final = "numpy.random"
ALONE: Final = 1  # threads that a process may have which is forked


@final
class Children:
    """Those that live, each with the line of whoever asked for it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._lines: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._fork()
                elif isinstance(key.fileobj, socket.socket):
                    if key.data in self._lines:  # else it has ended, and that was heard of first
                        self._hear(key.data)
                else:
                    self._ended(key.data, key.fd)

    def _fork(self) -> None:
        line, _ = self._listener.accept()
        try:
            request, files = _read(line)
        except (OSError, ValueError, struct.error):
            line.close()
            return
        try:
            pid = os.fork()
        except OSError:  # too many processes: whoever asked tries by itself, and is told so
            pid = -1
        if not pid:
            line.close()
            _become(request, files, self._selector)
        for file in files:
            os.close(file)
        if pid < 0:
            line.close()
            return
        self._lines[pid] = line
        self._selector.register(line, selectors.EVENT_READ, pid)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        _say(line, pid)

    def _hear(self, pid: int) -> None:
        try:
            numbers = self._lines[pid].recv(16)
        except OSError:
            numbers = b""
        if not numbers:
            self._selector.unregister(self._lines[pid])
        for number in numbers or bytes([signal.SIGKILL]):
            os.kill(pid, number)  # it may have ended, and is ours until it is waited for

    def _ended(self, pid: int, file: int) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(file)
        os.close(file)
        line = self._lines.pop(pid)
        with contextlib.suppress(KeyError, ValueError):  # nobody listens any more
            self._selector.unregister(line)
        _say(line, os.waitstatus_to_exitcode(status))
        line.close()


def _read(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    line.settimeout(PATIENCE)
    head, files, _, _ = socket.recv_fds(line, NUMBER.size, FILES)
    try:
        (size,) = NUMBER.unpack(head)
        data = b""
        while len(data) < size:
            if not (more := line.recv(size - len(data))):
                raise ValueError("the line ended")
            data += more
        if len(files) != FILES:
            raise ValueError(f"{len(files)} open files instead of {FILES}")
        request: dict[str, Any] = json.loads(data)
    except BaseException:
        for file in files:
            os.close(file)
        raise
    return request, files


def _say(line: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        line.sendall(NUMBER.pack(number))


def _become(request: dict[str, Any], files: list[int], not_ours: selectors.BaseSelector) -> NoReturn:
    """In the new process: what a process is that the agent has started itself."""
    code = 1
    try:
        nursery = os.getppid()
        os.setsid()
        for key in not_ours.get_map().values():
            key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
        not_ours.close()
        pipe, printed = files
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        os.chdir(request["folder"])
        sys.path[0] = request["folder"]
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.modules[RANDOM].seed()  # else all have the same chance numbers; Python's own are other ones by themselves
        gc.enable()
        code = spare.become({**request["brief"], "chief": nursery, "pipe": pipe}, request["module"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """`python -m laminar.parallel.nursery SOCKET PIPE CHIEF`: open files, one that listens and one to say that it is ready."""
    listener, rope, chief = map(int, sys.argv[1:])
    crew.die_with(chief)
    gc.disable()
    for name in (*spare.LOADED, RANDOM):
        importlib.import_module(name)
    gc.freeze()
    if len(os.listdir("/proc/self/task")) != ALONE:  # what another thread was about would be left half done in a fork
        sys.exit("a process with several threads forks no others")
    os.write(rope, b"!")
    os.close(rope)
    Children(socket.socket(fileno=listener)).serve()


if __name__ == "__main__":
    main()
