"""Confine: this process irrevocably gives up access that it will not need, before it runs graphs of strangers.

The available means differ between systems, so `confine` returns what is now confined. A missing means raises no error.

    memory, file size, core files   resource limits (POSIX)
    files                           Landlock (Linux 5.13): only listed paths can be opened
    programs, network               a seccomp filter (Linux on x86-64 and ARM64): no exec, no access to other processes, no sockets

Landlock binds the thread that calls, and those that it starts later. So a process calls `confine` when its libraries are loaded, wherever
they lie, and before they start threads: before `torch.set_num_threads`, and with the variables of `few_variables`.

This is the second defence. The first is the table of operators (model/graph_operators.py), which holds on every system.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # of prctl
_SET_FILTER, _ALL_THREADS = 1, 1  # of seccomp
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls of Landlock, the same everywhere
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_ALL_FILES: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}  # by Landlock's version

# Numbers of system calls that a computing process does not need.
_DENIED: Final[dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...]]]] = {
    # machine: (its number for seccomp, seccomp's own number,
    # programs: execve, execveat, ptrace, process_vm_readv, process_vm_writev, io_uring_setup,
    #   and signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal
    # network: socket, connect, socketpair)
    "x86_64": (0xC000003E, 317, (59, 322, 101, 310, 311, 425, 62, 200, 234, 129, 297, 424), (41, 42, 53)),
    "aarch64": (0xC00000B7, 277, (221, 281, 117, 270, 271, 425, 129, 130, 131, 138, 240, 424), (198, 203, 199)),
}
_ALLOW, _REFUSE, _X32 = 0x7FFF0000, 0x00050000 | 1, 0x40000000  # EPERM

# Beginnings of the names of variables that Python and its libraries need.
_VARIABLES: Final = (
    *("PYTHON", "LD_", "DYLD_", "OMP_", "MKL_", "KMP_", "LC_", "VIRTUAL_ENV", "PATH", "LANG", "TZ", "SYSTEMROOT"),
    *("HOME", "USERPROFILE", "XDG_CACHE_HOME", "TEMP", "TMP", "LAMINAR_CACHE", "LAMINAR_DEBUG"),
)


def few_variables(also: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a process that is to be confined: what Python and its libraries need, and variables whose names begin as one of
    `also` does. Whatever else is set here, such as keys and tokens, is not for graphs of strangers."""
    wanted = (*_VARIABLES, *also)
    few = {name: value for name, value in os.environ.items() if name.startswith(wanted) and "TOKEN" not in name}
    return few | {"OPENBLAS_NUM_THREADS": "1"}  # numpy would start threads when it is imported


def confine(
    *, memory: int | None = None, files: Iterable[Path] | None = None, writable: Iterable[Path] = (), network: bool = False
) -> set[str]:
    """Return which of "memory", "writes", "files", "programs" and "network" are confined now.

    `files` may still be read, beside the folders of Python and its libraries (None: access to files does not change). `writable` folders
    may be written to; if there are none, no file can be written. `network` keeps network access.
    """
    writable = list(writable)
    held: set[str] = set()
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not writable:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            held.add("writes")
        if memory is not None and _lowered(resource, memory):
            held.add("memory")
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
            if files is not None and _only_files(libc, [*files, *_of_python()], writable):
                held.add("files")
            if _filtered(libc, network):
                held |= {"programs"} if network else {"programs", "network"}
    return held


def _lowered(resource: Any, memory: int) -> bool:
    """Limit the process's private writable memory (RLIMIT_DATA). RLIMIT_AS would also count memory that allocators only reserve."""
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ValueError, OSError):
        return False
    return True


_PROC: Final = ("/proc/self", "/proc/stat", "/proc/meminfo", "/proc/cpuinfo")


def _of_python() -> list[Path]:
    """Folders of Python and its libraries: they stay readable, because libraries may be loaded late."""
    paths = sysconfig.get_paths()
    own = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    others = [entry for entry in sys.path if entry]
    system = [
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/dev/null",
        "/dev/urandom",
        *_PROC,
        "/sys/devices/system",
    ]
    return [Path(entry) for entry in [*own, *others, sys.prefix, sys.base_prefix, *system]]


def _only_files(libc: Any, readable: Iterable[Path], writable: Iterable[Path]) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    handled = _ALL_FILES[min(version, max(_ALL_FILES))]
    attributes = struct.pack("Q", handled)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        read = _READ_FILE | _READ_DIR
        for path, wanted in {**dict.fromkeys(readable, read), **dict.fromkeys(writable, handled & ~1)}.items():
            try:
                parent = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
            except OSError:
                continue
            allowed = wanted if path.is_dir() else _READ_FILE
            libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, parent), 0)
            os.close(parent)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _filtered(libc: Any, network: bool) -> bool:
    machine = _DENIED.get(platform.machine())
    if machine is None:
        return False
    architecture, seccomp, programs, sockets = machine
    denied = programs if network else (*programs, *sockets)
    refuse = len(denied) + 5  # the last instruction; jumps count from the one behind them
    program = [
        _instruction(0x20, 0, 0, 4),  # the architecture of the call
        _instruction(0x15, 0, refuse - 2, architecture),  # another one
        _instruction(0x20, 0, 0, 0),  # its number
        _instruction(0x35, refuse - 4, 0, _X32),  # of the x32 form
        *(_instruction(0x15, refuse - (4 + i) - 1, 0, number) for i, number in enumerate(denied)),
        _instruction(0x06, 0, 0, _ALLOW),
        _instruction(0x06, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    head = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    for_all = libc.syscall(seccomp, _SET_FILTER, _ALL_THREADS, head) == 0  # another number: of a thread with a filter of its own
    return for_all or bool(libc.prctl(_SECCOMP, _FILTER, head, 0, 0) == 0)


def _instruction(code: int, when_true: int, when_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)
