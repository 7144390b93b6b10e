"""Tidy: what belongs to a run of which a node has had no task for long goes from its disk, which is the owner's. A node is not told when
a run has ended, and need not be.

After QUIET the graphs and models of a run go: if it still lives, they are fetched again. What compression has kept back is handed in as by
a node that leaves, so that it, or somebody else, can go on with it; what the server does not take any more goes. What is too large to be
handed in, and answers of which nobody has said whether they were used, stay until LONG. What a task under way needs always stays.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, final

from safetensors import SafetensorError
from safetensors.numpy import load, save

from laminar.grid.node.client import Client, Refusal, Unreachable
from laminar.grid.node.home import OFFERED, Home
from laminar.grid.node.sent import Sent
from laminar.grid.wire.messages import LARGEST, About, Task

DAY: Final = 86400.0  # seconds
QUIET: Final = 14 * DAY  # the server keeps what a run needs for a week after its end, for it may be begun again
LONG: Final = 60 * DAY
OWED: Final = ("v", "error", "turn")  # of what compression keeps: what somebody else goes on with


class Fate(Enum):
    KEEP = "keep"
    HAND_IN = "hand in"  # what was kept back; then all of it goes
    STRIP = "strip"  # all but what was kept back, and the description by which it is known whose that is
    DELETE = "delete"


@dataclass(frozen=True)
class Held:
    """What a disk has of a run."""

    last: float  # seconds since 1970, of the last task
    residual: int | None = None  # bytes
    under_way: bool = False
    unsettled: bool = False  # answers were brought of which it is not known whether they were used


def fate(held: Held, now: float) -> Fate:
    quiet = now - held.last
    if held.under_way or quiet < QUIET:
        return Fate.KEEP
    if held.residual is not None and held.residual <= LARGEST and not held.unsettled:
        return Fate.HAND_IN
    if quiet >= LONG or (held.residual is None and not held.unsettled):
        return Fate.DELETE
    return Fate.KEEP if held.unsettled else Fate.STRIP


@final
class Tidy:
    def __init__(self, home: Home, client: Client, sent: Sent) -> None:
        self._home, self._client, self._sent = home, client, sent
        self._abouts: dict[str, About] = {}  # by sha256
        self._fates: dict[str, Fate] = {}  # by mark

    def look(self, now: float) -> bool:
        """Does a residual go? The process that computes must not run then: it may have that in its memory."""
        home = self._home
        self._abouts = home.abouts()
        names = {home.mark(about.run) for about in self._abouts.values()}
        residuals = {path.name.removesuffix(OFFERED): path for path in _inside(home.root / "residuals")}
        folders = {path.name: path for path in _inside(home.root / "versions")}
        under_way, unsettled = _marks(home, home.tasks()), _marks(home, home.sent())
        self._fates = {}
        for mark in names | residuals.keys() | folders.keys():
            described = [home.root / "files" / sha256 for sha256, about in self._abouts.items() if home.mark(about.run) == mark]
            paths = [*described, *(found[mark] for found in (residuals, folders) if mark in found)]
            size = _size(residuals[mark]) if mark in residuals else None
            held = Held(max(_touched(path, now) for path in paths), size, mark in under_way, mark in unsettled)
            self._fates[mark] = fate(held, now)
        return any(one in (Fate.HAND_IN, Fate.DELETE) for one in self._fates.values())

    def do(self, now: float) -> set[str]:
        """What was found. Marks of runs that are gone from the disk."""
        home, gone = self._home, set[str]()
        for mark, what in self._fates.items():
            if what is Fate.HAND_IN and not self._hand_in(mark):
                self._fates[mark] = Fate.KEEP  # until the server can be reached
            elif what is not Fate.KEEP:
                home.drop_versions(mark)
                gone.add(mark)
            if what is Fate.DELETE:
                for path in home.residuals_of(mark):
                    path.unlink(missing_ok=True)
                for task in home.sent():
                    if home.mark(task.run) == mark:
                        self._sent.settled(task.result)
        needed: set[str] = set()
        for sha256, about in self._abouts.items():
            what = self._fates[home.mark(about.run)]
            needed |= {sha256, *about.files} if what is Fate.KEEP else {sha256} if what is Fate.STRIP else set()
        for path in _inside(home.root / "files"):
            if now - _touched(path, now) >= QUIET and path.name not in needed:
                with contextlib.suppress(OSError):
                    path.unlink()
        return gone

    def _hand_in(self, mark: str) -> bool:
        """Is it settled?"""
        name = next((about.run for about in self._abouts.values() if self._home.mark(about.run) == mark), None)
        try:
            for path in self._home.residuals_of(mark) if name is None else []:
                path.unlink()  # nobody knows what it belongs to
            return name is None or hand_in(self._home, self._client, name)
        except OSError:
            return False


def hand_in(home: Home, client: Client, run: str) -> bool:
    """Leave with the server what was kept back; it is not here any more. False: nobody can tell yet whether the server has it.

    It has another name from before the first byte is sent: whoever goes on with it gets it from the server, or has handed it in again.
    What is both here and there would be sent twice.
    """
    path, offered = home.residual_path(run), home.offered_path(run)
    if path.exists():
        os.replace(path, offered)
    if not offered.exists():
        return True
    try:
        client.custody(run, owed(offered))
    except Unreachable:
        return False
    except Refusal:
        pass  # the run is over, or it is not what the server has on account: who goes on begins anew
    offered.unlink(missing_ok=True)
    return True


def owed(path: Path) -> bytes:
    """What is handed in of a residual. What cannot be read goes as it is: the server says so."""
    data = path.read_bytes()
    try:
        return save({name: tensor for name, tensor in load(data).items() if name in OWED})
    except SafetensorError:
        return data


def _marks(home: Home, tasks: Iterable[Task]) -> set[str]:
    return {home.mark(task.run) for task in tasks}


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _touched(path: Path, now: float) -> float:
    """When. By a clock that was wrong then, it may be in times to come: it counts from today."""
    try:
        found = path.stat().st_mtime
        if found > now + DAY:
            os.utime(path, (now, now))
    except OSError:
        return now
    return min(found, now)
