"""Busy: is the machine free enough to be measured? What others compute meanwhile would be taken for a property of the job. No torch here.

    reading - some tenths of a second - reading: how much of a core did processes take that are not ours?

Where the system tells no such times, its load average has to do, less what this process itself takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final

from laminar.core.errors import LaminarError

LIMIT: Final = 0.15  # of one core
SECONDS: Final = 0.3  # between two readings
PATIENCE: Final = 5.0  # seconds in which it may become quiet
FRESH: Final = 2.0  # seconds in which it is believed to be still as quiet
TRIES: Final = 3  # of a measurement that was disturbed
NAMED: Final = 3  # processes that are named
PROC: Final = Path("/proc")
T = TypeVar("T")


class Process(NamedTuple):
    name: str
    parent: int
    seconds: float  # of a processor, its ended children included
    alone: float  # without those


@dataclass(frozen=True)
class Reading:
    """What a moment looks like; seconds of processors count from any beginning."""

    at: float
    used: float | None  # seconds of processors, by everybody; None: the system does not tell
    own: float  # by this process and its children
    processes: Mapping[int, Process] = field(default_factory=dict)
    load: float = 0.0  # processes that want to run, about


@dataclass(frozen=True)
class Busy:
    """`share`: of one core, that others took; `who`: the busiest of them, for people."""

    share: float
    who: tuple[str, ...] = ()


def compare(before: Reading, after: Reading, me: int) -> Busy:
    """What others did between two readings."""
    passed = max(after.at - before.at, 1e-9)
    own = max(0.0, after.own - before.own)
    if before.used is None or after.used is None:
        return Busy(max(0.0, after.load - own / passed))
    share = max(0.0, after.used - before.used - own) / passed
    ours = _family(after.processes, me)
    spent = {
        pid: one.alone - (before.processes[pid].alone if pid in before.processes else 0.0)
        for pid, one in after.processes.items()
        if pid not in ours and (pid in before.processes or one.alone <= passed)
    }
    busiest = sorted((pid for pid in spent if spent[pid] / passed >= LIMIT / NAMED), key=lambda pid: -spent[pid])[:NAMED]
    return Busy(share, tuple(f"{after.processes[pid].name} (process {pid}, {100 * spent[pid] / passed:.0f} %)" for pid in busiest))


def _family(processes: Mapping[int, Process], me: int) -> set[int]:
    """This process and whatever it has started."""
    found, ahead = {me}, [me]
    while ahead:
        parent = ahead.pop()
        for pid, one in processes.items():
            if one.parent == parent and pid not in found:
                found.add(pid)
                ahead.append(pid)
    return found


def refusal(busy: Busy, limit: float = LIMIT) -> LaminarError | None:
    """None: it is quiet enough."""
    if busy.share <= limit:
        return None
    who = f": {', '.join(busy.who)}" if busy.who else ", which cannot be seen from here"
    return LaminarError(
        "L609",
        f"the machine is too busy to be measured: other processes take {100 * busy.share:.0f} % of a core, "
        f"and at most {100 * limit:.0f} % would do{who}",
        hint="end them or wait, and try again; --even-if-busy measures all the same",
    )


def read_now() -> Reading:
    processes = _processes()
    family = _family(processes, os.getpid())
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    own += sum(processes[pid].seconds for pid in family if pid in processes and pid != os.getpid())
    return Reading(time.monotonic(), _used(), own, processes, os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0)


def _used() -> float | None:
    """Also by other virtual machines that took our processor away (steal)."""
    try:
        name, *numbers = (PROC / "stat").read_text().partition("\n")[0].split()
        user, nice, system, idle, _, irq, soft, steal = map(int, numbers[:8])
    except (OSError, ValueError):
        return None
    if name != "cpu" or not idle:
        return None
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, Process]:
    found: dict[int, Process] = {}
    try:
        tick = os.sysconf("SC_CLK_TCK")
        folders = [one for one in PROC.iterdir() if one.name.isdecimal()]
    except (OSError, ValueError):
        return found
    for folder in folders:
        try:
            text = (folder / "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        # the name is in brackets and may have brackets in it
        name, _, rest = text.partition("(")[2].rpartition(")")
        words = rest.split()
        alone, ended = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
        found[int(folder.name)] = Process(name, int(words[1]), (alone + ended) / tick, alone / tick)
    return found


@final
class Quiet:
    """Lets measuring be done when nobody else is busy, and again where somebody was."""

    def __init__(
        self,
        *,
        even_if_busy: bool = False,
        limit: float = LIMIT,
        patience: float = PATIENCE,
        read: Callable[[], Reading] = read_now,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self.even_if_busy = even_if_busy
        self._limit, self._patience, self._read, self._sleep = limit, patience, read, sleep
        self._seen: Reading | None = None  # the end of a time in which it was quiet
        self._disturbed: Reading | None = None  # or was not, and that is no matter

    def during(self, measure: Callable[[], T]) -> tuple[T, bool]:
        """What it gives, and whether it was quiet meanwhile. L609 if it was not, unless that is no matter."""
        for _ in range(TRIES):
            quiet = self.wait()
            before = self._read()
            found = measure()
            after = self._read()
            if after.at - before.at < SECONDS:  # too short to tell
                return found, quiet
            busy = refusal(compare(before, after, os.getpid()), self._limit)
            self._seen, self._disturbed = (after, None) if busy is None else (None, after)
            if busy is None or self.even_if_busy:
                return found, busy is None
        assert busy is not None
        raise busy

    def beside(self, work: Callable[[], T]) -> tuple[T, bool]:
        """What it gives, done once, and whether it was quiet meanwhile: for work that others do not delay."""
        before = self._read()
        found = work()
        return found, refusal(compare(before, self._read(), os.getpid()), self._limit) is None

    def wait(self) -> bool:
        """Until nobody else is busy: L609 after some seconds. False: somebody is, and that is no matter."""
        before = self._read()
        if self._seen is not None and before.at - self._seen.at < FRESH:
            return True
        if self.even_if_busy and self._disturbed is not None and before.at - self._disturbed.at < FRESH:
            return False
        until = before.at + self._patience
        while True:
            self._sleep(SECONDS)
            after = self._read()
            busy = refusal(compare(before, after, os.getpid()), self._limit)
            if busy is None:
                self._seen = after
                return True
            if self.even_if_busy:
                self._disturbed = after
                return False
            if after.at >= until:
                raise busy
            before = after
