"""Processes of this machine, as /proc tells of them."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path


def parents() -> dict[int, int]:
    """Of all that live."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                found[int(folder.name)] = int(parent)
    return found


def below(*pids: int) -> set[int]:
    """Processes and all that they have started, as far as they still belong to them."""
    known, found = parents(), set(pids)
    while more := {child for child, parent in known.items() if parent in found} - found:
        found |= more
    return found & known.keys()


def when_it_runs(word: str, chief: subprocess.Popen[str]) -> set[int]:
    """Wait until the chief has a process with this word in its command: all that it has started by then."""
    while True:
        found = below(chief.pid)
        if any(word in command(pid) for pid in found):
            return found
        assert chief.poll() is None, chief.communicate()
        time.sleep(0.02)


def all_gone(pids: set[int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    for pid in pids:
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([watch], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
        finally:
            os.close(watch)
    return True


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
