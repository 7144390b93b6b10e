"""Machine: what this computer has and is doing, on Linux, Windows and macOS (psutil). What cannot be found out is None."""

from __future__ import annotations

import contextlib
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import final

import psutil

from laminar import __version__
from laminar.grid.node.idle import untouched
from laminar.grid.node.idle_ways import Ways
from laminar.grid.node.limits import Limits, Machine
from laminar.grid.wire.messages import Facts


def facts(name: str, limits: Limits, torch: str = "", kernels: Sequence[str] = ()) -> Facts:
    memory = min(_memory(), limits.memory or sys.maxsize)
    return Facts(
        name=name,
        cores=max(1, int((psutil.cpu_count() or 1) * limits.cpu)),
        memory=memory,
        platform=f"{platform.system()} {platform.machine()}",
        laminar=__version__,
        torch=torch,
        kernels=list(kernels),
    )


@cache
def _memory() -> int:
    """Bytes that the machine has: asked once, for facts are told with every request."""
    return int(psutil.virtual_memory().total)


@final
class Watcher:
    """Looks at the machine; the load of others is that since the last look. Whether somebody is there is looked at where it matters."""

    def __init__(self, home: Path, *, only_idle: bool = True) -> None:
        self._home, self._paused = home, home / "paused"
        self._ways = Ways() if only_idle else None
        self._own: dict[int, float] = {}
        psutil.cpu_percent(None)
        self._at = time.monotonic()

    def look(self, own: list[int]) -> Machine:
        """`own`: processes of this node, whose work is not that of others."""
        return Machine(
            now=datetime.now(),
            untouched=untouched(self._ways.look()) if self._ways is not None else None,
            others=self._others(own),
            on_battery=_on_battery(),
            free=psutil.virtual_memory().available,
            room=_room(self._home),
            paused=self._paused.exists(),
        )

    def _others(self, own: list[int]) -> float:
        now, cores = time.monotonic(), psutil.cpu_count() or 1
        used, spent = psutil.cpu_percent(None) / 100, 0.0
        for pid in own:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                total = times.user + times.system
                spent += total - self._own.get(pid, total)
                self._own[pid] = total
        share = spent / max(now - self._at, 1e-3) / cores
        self._at = now
        return max(0.0, used - share)


def _room(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _on_battery() -> bool | None:
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError):
        return None
    return None if battery is None else not battery.power_plugged


def be_modest() -> None:
    """The lowest priority there is, for this process and those it starts."""
    with contextlib.suppress(OSError, psutil.Error, AttributeError):
        me = psutil.Process()
        if sys.platform == "win32":
            me.nice(getattr(psutil, "IDLE_PRIORITY_CLASS", 64))
        else:
            me.nice(19)
        if sys.platform == "linux":
            me.ionice(psutil.IOPRIO_CLASS_IDLE)
