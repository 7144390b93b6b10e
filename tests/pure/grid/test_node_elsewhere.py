"""A node on other systems: whatever one of them lacks, a node does without. None of them can be run here, so they are imitated."""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import laminar
from laminar.core import heap, places
from laminar.grid.node import child, computer, home, idle_ways, machine, memory_limit
from laminar.grid.node.computer import Computer
from laminar.grid.node.limits import Limits, rests

SOURCE = Path(laminar.__file__).parent.parent
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"}  # that Windows lacks
# What Windows or macOS lack of os and signal (docs.python.org: "Availability: Unix", "not macOS"), as far as anybody might use it
OS = frozenset(
    {
        *("fork", "getuid", "geteuid", "getgid", "getegid", "getpgid", "killpg", "setsid", "setpgid", "nice", "getpriority", "setpriority"),
        *("sched_getaffinity", "sched_setaffinity", "statvfs", "fstatvfs", "fchmod", "fchown", "chown", "lchown", "uname", "getloadavg"),
        *("mkfifo", "mknod", "pread", "pwrite", "preadv", "pwritev", "posix_fadvise", "posix_fallocate", "posix_spawn", "wait", "wait3"),
        *("wait4", "waitid", "WNOHANG", "sync", "fdatasync", "register_at_fork", "sysconf", "confstr", "sendfile", "memfd_create", "pipe2"),
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_DSYNC", "pidfd_open"),
    }
)
SIGNALS = frozenset(
    {
        *("SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGQUIT"),
        *("alarm", "setitimer", "pthread_sigmask"),
    }
)
# Used where the system is known, or where the lack of it is caught
KNOWN = {
    "grid/node/at_login.py os.getuid": "macOS only",
    "grid/node/idle_ways.py os.getuid": "Linux only",
    "grid/node/memory_limit.py resource": "Linux only",
    "core/permission.py os.geteuid": "AttributeError is caught",
    "core/permission.py os.statvfs": "AttributeError is caught",
    "core/permission.py pwd": "ImportError is caught",
    "core/confine.py resource": "ImportError is caught",
    "core/confine.py os.O_CLOEXEC": "Linux only",
    "core/memory.py os.sysconf": "AttributeError is caught",
    "parallel/crew.py signal.SIGKILL": "of processes on this machine, which a node has none of; and prctl, Linux only",
    "parallel/forked.py signal.SIGKILL": "of processes on this machine, which a node has none of",
    "core/scratch.py fcntl": "ImportError is caught",
    "store/locks.py fcntl": "ImportError is caught",
    "kernels/compile/pool.py os.sched_getaffinity": "after a look whether there is sched_setaffinity",
}


def reached() -> dict[str, ast.Module]:
    """All modules of Laminar that a node may load, at its start or later."""
    found: dict[str, ast.Module] = {}
    todo = [f"laminar.grid.node.{path.stem}" for path in (SOURCE / "laminar/grid/node").glob("*.py")] + ["laminar.cli.grid_join"]
    while todo:
        place = SOURCE.joinpath(*todo.pop().split("."))
        path = next((one for one in (place.with_suffix(".py"), place / "__init__.py") if one.exists()), None)
        if path is None or str(path.relative_to(SOURCE / "laminar")) in found:
            continue
        tree = found[path.relative_to(SOURCE / "laminar").as_posix()] = ast.parse(path.read_text())
        todo += [name for name in imports(tree) if name.startswith("laminar")]
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            yield from (name.name for name in one.names)
        elif isinstance(one, ast.ImportFrom) and one.module:
            yield one.module
            yield from (f"{one.module}.{name.name}" for name in one.names)


def used(tree: ast.Module) -> set[str]:
    """What not every system has, less what is looked for first: hasattr(os, "pread")."""
    names = {name for name in imports(tree) if name in MODULES}
    looked_for = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            word = f"{one.value.id}.{one.attr}"
            if word in {*(f"os.{name}" for name in OS), *(f"signal.{name}" for name in SIGNALS)}:
                names.add(word)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "hasattr":
            looked_for.add(f"{ast.unparse(one.args[0])}.{ast.unparse(one.args[1]).strip(chr(39))}")
    return names - looked_for


def test_what_only_some_systems_have_is_looked_for_first() -> None:
    trees = reached()
    assert len(trees) > 100 and "data/mirrors/parts.py" in trees and "grid/node/worker.py" in trees and "grid/node/data_process.py" in trees
    assert {f"{path} {name}" for path, tree in trees.items() for name in used(tree)} == set(KNOWN)


@pytest.mark.parametrize("system", ["win32", "darwin", "freebsd14"])
def test_a_machine_that_tells_little_can_be_worked_on(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without batteries, cgroups, terminals, ioprio, RLIMIT_DATA, mallopt, and without words to a desktop."""
    monkeypatch.setattr(sys, "platform", system)
    for name in ("sensors_battery", "IOPRIO_CLASS_IDLE"):
        monkeypatch.delattr(psutil, name, raising=False)
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delattr(os, "getuid")
    if system == "freebsd14":  # looked at as Linux is, where there is nothing of it
        monkeypatch.setattr(idle_ways, "_said", lambda _: None)
        monkeypatch.setattr(idle_ways, "logind_sessions", lambda: None)
        monkeypatch.setattr(idle_ways, "_glob", lambda *_: [])
    told = machine.Watcher(tmp_path).look([os.getpid()])
    assert told.on_battery is None and told.free
    assert rests(Limits(), told) == ""  # it works, where its owner does not care whether somebody is there
    if system != "freebsd14":
        assert "cannot be found out" in rests(Limits(only_idle=True), told)
    assert machine.facts("n", Limits(cpu=0.5)).memory > 0
    limit = memory_limit.MemoryLimit(1 << 30, 1)
    limit.renew()
    assert limit.said(MemoryError()) == memory_limit.too_much(1 << 30)
    assert heap.keep_freed_memory() is False
    assert home.default_home().name == "node"


@pytest.mark.parametrize("system", ["win32", "darwin", "linux"])
def test_a_node_is_modest_as_far_as_the_system_lets_it(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, Any]] = []

    def refused(value: Any) -> None:
        done.append(("ionice", value))
        raise psutil.AccessDenied

    me = SimpleNamespace(nice=lambda value: done.append(("nice", value)), ionice=refused)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(psutil, "Process", lambda: me)
    machine.be_modest()
    assert done[0] == ("nice", 64 if system == "win32" else 19) and (len(done) == 2) == (system == "linux")


def test_places_in_a_file_without_the_calls_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "read_at", places._moved_and_read)
    monkeypatch.delattr(os, "preadv", raising=False)
    file = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT | places.BINARY)
    try:
        assert places._moved_and_written(file, b"abcdef", 3) == 6 and places._moved_and_written(file, memoryview(b"XY"), 4) == 2
        assert places._moved_and_read(file, 100, 0) == b"\0\0\0aXYdef" and places._moved_and_read(file, 2, 8) == b"f"
        room = bytearray(4)
        assert places.read_into(file, memoryview(room), 3) == 4 and room == b"aXYd"
        assert places.read_into(file, memoryview(room), 9) == 0
    finally:
        os.close(file)


def test_a_worker_without_a_keeper_ends_where_its_parent_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(child.os, "_exit", ended.append)
    pace = child.Pace(1.0)
    monkeypatch.setattr(child.os, "name", "nt")
    monkeypatch.setattr(psutil, "pid_exists", lambda _: False)
    pace.pause()
    assert ended == []  # it looks once a second
    pace._look = time.monotonic()
    pace.pause()
    assert ended == [0]
    monkeypatch.setattr(psutil, "pid_exists", lambda _: True)
    pace._look = time.monotonic()
    pace.pause()
    assert ended == [0]


def _comes_to(process: psutil.Process, *, stopped: bool) -> bool:
    """A signal is told at once, and heeded when the process next has a processor."""
    until = time.monotonic() + 20
    while (process.status() == psutil.STATUS_STOPPED) != stopped and time.monotonic() < until:
        os.sched_yield()
    return (process.status() == psutil.STATUS_STOPPED) == stopped


def test_a_launcher_is_stopped_with_what_it_has_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """python.exe of a venv on Windows is one: the process that computes is its child."""
    monkeypatch.setattr(computer, "LAUNCHED", True)
    inner = "print(1, flush=True); import time; time.sleep(60)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    made = Computer(tmp_path, Limits())
    made._process = subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert made._process.stdout is not None and made._process.stdout.readline() == b"1\n"
    both = made._all()
    try:
        assert len(both) == 2 and made.memory() > memory_limit.held(both[0])
        made.rest(True)
        assert all(_comes_to(one, stopped=True) for one in both)
        made.rest(False)
        assert all(_comes_to(one, stopped=False) for one in both)
    finally:
        for one in reversed(both):
            with contextlib.suppress(psutil.Error):
                one.kill()
        made.end()
