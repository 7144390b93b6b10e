"""Memory limit: what the owner allows, made a limit of the computing process, so that too large a task fails and the machine does not.

On Linux it is RLIMIT_DATA, which counts memory that can be written and is the process's own. (RLIMIT_AS would count libraries and what
allocators reserve and never touch as well: with 16 threads two gigabytes before anything is computed.) Mapped, and never touched, are the
stacks of threads; so it is set before each task from what is mapped and what is really there at that moment. On Windows it is a job object.
Elsewhere the keeper watches, as it does everywhere.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final, final

import psutil

STACK: Final = 8 << 20  # bytes of a thread's stack where the system does not say
CODE: Final = "memory"  # of an error that says so
_PROCESS_MEMORY, _EXTENDED = 0x100, 9  # JOB_OBJECT_LIMIT_PROCESS_MEMORY, JobObjectExtendedLimitInformation


@final
class MemoryLimit:
    """Of this process."""

    def __init__(self, most: int | None, threads: int, *, windows: Any = None) -> None:
        self._most, self._threads = most, threads
        self._job: Any = None
        windows = windows or getattr(ctypes, "windll", None)
        if most is not None and windows is not None:
            self._job = job_object(most, windows)

    def renew(self) -> None:
        """Before a task."""
        if self._most is None or sys.platform != "linux":
            return
        import resource

        me = psutil.Process()
        stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
        stack = STACK if stack in (resource.RLIM_INFINITY, -1) else stack
        # torch starts as many threads again when a gradient is first computed
        missing = max(0, 2 * self._threads + 2 - me.num_threads())
        wanted = data_limit(self._most, mapped=me.memory_info().data, there=held(me), stacks=missing * stack)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))

    def said(self, error: BaseException) -> str | None:
        """What an error means, if it means that there is too little memory."""
        if not is_shortage(error):
            return None
        return "it needs more memory than the machine has" if self._most is None else too_much(self._most)


def data_limit(most: int, *, mapped: int, there: int, stacks: int) -> int:
    """Bytes that may be mapped, so that no more than `most` are there: what is mapped now, and what is still to come."""
    return mapped + max(0, most - there) + stacks


def held(process: psutil.Process) -> int:
    """Bytes of memory that a process has for itself. Libraries and mapped files can be dropped at any time: they cost the owner nothing."""
    told = process.memory_info()
    return int(told.rss - getattr(told, "shared", 0))


def too_much(most: int) -> str:
    return f"it needs more than the {most >> 20} MB of memory that the owner allows"


def is_shortage(error: BaseException) -> bool:
    """torch says it in words."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


# Windows


class _Basic(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("smallest", ctypes.c_size_t),
        ("largest", ctypes.c_size_t),
        ("processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
    )


class _Extended(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", _Basic),
        ("io", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process", ctypes.c_size_t),
        ("peak_job", ctypes.c_size_t),
    )


def job_object(most: int, windows: Any) -> Any:
    """This process in a job of its own, which may have so much memory. None: the system will not, and the keeper's watch has to do."""
    kernel = windows.kernel32
    kernel.CreateJobObjectW.restype = kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.CreateJobObjectW.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    kernel.SetInformationJobObject.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32]
    kernel.AssignProcessToJobObject.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    job = kernel.CreateJobObjectW(None, None)
    limits = _Extended()
    limits.basic.flags, limits.process_memory = _PROCESS_MEMORY, most
    if not job or not kernel.SetInformationJobObject(job, _EXTENDED, ctypes.byref(limits), ctypes.sizeof(limits)):
        return None
    return job if kernel.AssignProcessToJobObject(job, kernel.GetCurrentProcess()) else None
