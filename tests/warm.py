"""Processes of `python -m laminar` that need not load torch first: forked from one that has loaded everything and done nothing.

    from tests import warm
    process = warm.Popen([sys.executable, "-m", "laminar", "build"], cwd=folder, stdout=subprocess.PIPE)
    done = warm.run([sys.executable, "-m", "laminar", "build"], cwd=folder, capture_output=True)

They are like those of `subprocess`: children of the caller under their own process numbers, with the files, folder, environment and
session they are given, to be waited for, stopped and killed; and so are the processes that they start (a build's workers). What no such
process can show is that the start itself works (what is imported when, another hash seed): for that, use `subprocess`. Commands that are
none of MODULES, and systems other than Linux, get a process of `subprocess`.

How: the caller is the reaper of its orphans (prctl(2)), and has a nursery: a child that keeps the loaded state. Asked for a process, the
nursery forks one that forks another and leaves, so that the caller is the parent of the last.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

MODULES = (
    "laminar",
    "laminar.parallel.sync.member",
    "laminar.parallel.split.member",
    "laminar.parallel.stages.member",
    "laminar.parallel.apart.server_process",
    "laminar.parallel.apart.worker_process",
    "laminar.parallel.evaluation.evaluator_process",
    "laminar.grid.node.worker_process",
    "laminar.grid.node.data_process",
    "laminar.experiments.trial_child",
    "tests.multi.parallel.downpour_pusher",
    "tests.unprivileged",
)
LOADED = (
    *MODULES[1:],
    *(f"laminar.cli.{name}" for name in ("build", "evaluate", "export", "help", "import_", "join", "plain", "predict", "progress", "show")),
    "laminar.data.sources.digits",
    "laminar.parallel.apart.chief",
    "laminar.parallel.apart.join",
    "laminar.parallel.run",
    "laminar.parallel.sync.chief",
    "laminar.stack.api",
    "laminar.stack.train_layer",
    "laminar.store.delta",
    "laminar.store.mapping",
    "laminar.store.tensors",
    "numpy.ctypeslib",
    "numpy.ma",
    "rich.console",
    "rich.table",
    "torch.utils.tensorboard",
)
Completed = subprocess.CompletedProcess[Any]
NAME = "nursery"  # as /proc/…/comm has it
_SET_NAME, _SET_SUBREAPER = 15, 36
KNOWN: list[subprocess.Popen[bytes]] = []  # the first nursery
_HIGH = 400  # files are put there first, so that none is overwritten before it was copied


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Nursery:
    """The caller's side: asks for processes."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        _prctl(_SET_SUBREAPER, 1)

    def born(self, words: list[str], files: list[int], places: list[int], *more: Any) -> int:
        """The number of a new process; `files` of ours are at `places` there."""
        message = json.dumps([places, words, os.getpid(), *more]).encode()
        with self._lock:
            socket.send_fds(self._line, [len(message).to_bytes(4, "big")], files)
            self._line.sendall(message)
            answer = self._line.recv(8)
        if not answer:
            raise OSError("the nursery has gone")
        return int.from_bytes(answer, "big")


def serve(line: socket.socket) -> list[Any]:
    """In a nursery: returns in every process that is born, with what it is to do."""
    _prctl(_SET_NAME, NAME.encode())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        size, files, _, _ = socket.recv_fds(line, 4, 64)
        if not size:
            os._exit(0)  # nobody is left to ask
        places, *told = json.loads(line.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        if between := os.fork():
            for file in files:
                os.close(file)
            os.waitpid(between, 0)
            continue
        own = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == own:
            os.sched_yield()  # until the one between has left
        if os.getppid() != told[1]:
            os._exit(1)  # the caller has gone meanwhile
        line.sendall(os.getpid().to_bytes(8, "big"))
        line.detach()  # its number may be that of another file now
        _take(files, places)
        return told


def _take(files: list[int], places: list[int]) -> None:
    """Nothing is open but these files, in these places."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, _HIGH) for file in files]
    os.closerange(0, _HIGH)
    for file, place in zip(high, places, strict=True):
        os.dup2(file, place)
    os.closerange(_HIGH, max(high) + 1)


def become(words: list[str], _parent: int, cwd: str, environment: dict[str, str], session: bool, safe_path: bool) -> None:
    """Be `python -m words…`, or `python -P -m words…`, with a nursery of its own."""
    os.environ.clear()
    os.environ.update(environment)
    here, there = socket.socketpair()
    if not os.fork():
        _take([there.detach()], [3])
        here.detach()
        become(*serve(socket.socket(fileno=3)))
        return
    there.close()
    _prctl(_SET_NAME, b"python")
    Popen.nursery = Nursery(here)
    subprocess.Popen = Popen  # type: ignore[misc]
    if session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, stream in (("stdin", os.fdopen(0)), ("stdout", os.fdopen(1, "w")), ("stderr", os.fdopen(2, "w", buffering=1))):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(cwd)
    if not safe_path:
        sys.path.insert(0, cwd)
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


class Popen(subprocess.Popen[Any]):
    """As subprocess.Popen; warm where that is possible."""

    nursery: ClassVar[Nursery | None] = None

    def _execute_child(self, *args: Any) -> None:
        plain = super()._execute_child  # type: ignore[misc]
        given = inspect.signature(plain).bind(*args).arguments
        words = list(given["args"])
        at = words.index("-m") if "-m" in words else len(words)
        flags, module = words[1:at], [*words[at + 1 :], ""]
        if sys.platform != "linux" or words[0] != sys.executable or flags not in ([], ["-P"]) or module[0] not in MODULES:
            plain(*args)
            return
        if Popen.nursery is None:
            Popen.nursery = _first()
        assert given["preexec_fn"] is None and given["close_fds"]
        ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        files = [place if end < 0 else end for place, end in enumerate(ends)] + list(given["pass_fds"])
        environment = dict(os.environ if given["env"] is None else given["env"])
        folder = os.fspath(given["cwd"] or os.getcwd())
        places = [0, 1, 2, *given["pass_fds"]]
        self.pid = Popen.nursery.born(module[:-1], files, places, folder, environment, given["start_new_session"], flags == ["-P"])
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[end] for end in ends))  # type: ignore[attr-defined]


def run(words: list[str], *, capture_output: bool = False, timeout: float | None = None, check: bool = False, **options: Any) -> Completed:
    """As subprocess.run, without `input`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture_output else {}
    with Popen(words, **pipes, **options) as process:
        try:
            out, error = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, error)
    if check:
        done.check_returncode()
    return done


def _first() -> Nursery:
    """The nursery of the tests themselves: this file as a program."""
    here, there = socket.socketpair()
    with there:
        words = [sys.executable, "-m", "tests.warm", str(there.fileno())]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(words, cwd=Path(__file__).parents[1], pass_fds=[there.fileno()], env=environment)
    KNOWN.append(process)
    atexit.register(_leave, here, process)
    return Nursery(here)


def _leave(line: socket.socket, nursery: subprocess.Popen[bytes]) -> None:
    """The nursery ends when nobody is left to ask."""
    line.close()
    nursery.wait()


def ended(pid: int) -> bool:
    """Is this child of ours the nursery, or an orphan (which came to us, not to the system) that is over?"""
    if any(pid == process.pid for process in KNOWN):
        return True
    with contextlib.suppress(OSError):
        orphaned = Path(f"/proc/{pid}/comm").read_text().strip() == NAME  # leaves at once
        return os.waitpid(pid, 0 if orphaned else os.WNOHANG)[0] == pid
    return True


def _export() -> None:
    """torch loads most of its exporter when something is exported for the first time."""
    import torch
    from torch import nn

    from laminar.model.graph_export import archive_of, traced

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(2, 2))
    for training in (True, False):
        archive_of(model, traced(model, torch.zeros(4, 1, 4, 4), training=training))


def _load() -> None:
    for name in LOADED:
        importlib.import_module(name)
    _export()
    for name in MODULES[1:]:
        del sys.modules[name]  # to be run, not imported
    del sys.path[0]  # the folder of the tests, which is the nursery's own
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not survive a fork"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _load()
    become(*serve(socket.socket(fileno=int(sys.argv[1]))))
