"""A child process that permissions bind, even when the tests run as root: it gives up the capability to ignore them, and stays the owner.

    done = unprivileged("-m", "laminar", "build", cwd=folder)
    done = unprivileged("-c", "...", cwd=folder)

Changing the user would not do: root's temporary folders are closed to everybody else.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

_VERSION = 0x20080522  # of the Linux interface: two words of 32 bits for each set
_IGNORE_PERMISSIONS = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def unprivileged(*words: str, cwd: Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments; `check` is the exit code expected."""
    if os.geteuid() == 0 and sys.platform != "linux":
        pytest.skip("root cannot give up its power here")
    done = warm.run(
        [sys.executable, "-m", "tests.unprivileged", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if check is not None:
        assert done.returncode == check, f"{' '.join(words)} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr or check is None, done.stderr
    return done


def _give_up() -> None:
    """From the effective and the permitted set alike: access(2) looks at the latter."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of the low 32 capabilities, then of the high ones
    if libc.capget(head, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for place in (0, 1, 2):
        sets[place] &= ~_IGNORE_PERMISSIONS & 0xFFFFFFFF
    if libc.capset(head, sets):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    if sys.platform == "linux":
        _give_up()
    if sys.argv[1] == "-c":
        exec(sys.argv[2], {"__name__": "__main__"})
    else:
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
