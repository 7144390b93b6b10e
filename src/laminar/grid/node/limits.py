"""Limits: what the owner allows, and whether that lets the node work now. Pure: what the machine is doing in, a decision out.

The owner comes first: the node is at the lowest priority, stops within a second, and says why it rests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.sizes import parse_bytes

IDLE: Final = 300.0  # seconds without a key or a mouse
BUSY: Final = 0.25  # share of the processors that others may use before an idle machine counts as busy
SMALLEST: Final = 512 << 20  # bytes of memory: torch alone needs half of it
SPARE: Final = 256 << 20  # bytes of memory
ROOM: Final = 256 << 20  # bytes of the disk
PUBLIC, PRIVATE = "public", "private"  # networks from which data is fetched
SHORT: Final = "the machine has less free memory than"
_HOURS: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?-(\d{1,2})(?::(\d{2}))?")


@dataclass(frozen=True)
class Limits:
    cpu: float = 1.0  # share of the processors
    memory: int | None = None  # bytes
    only_idle: bool = False
    hours: tuple[int, int] | None = None  # minutes of the day; from the first to before the second, over midnight where that is earlier
    battery: bool = False  # work also on battery
    private: bool = False  # fetch data also from mirrors in the owner's own network


@dataclass(frozen=True)
class Machine:
    """What it is doing now. None: cannot be found out here."""

    now: datetime
    untouched: float | None = None  # seconds since a key or the mouse
    others: float | None = None  # share of the processors that other programs use
    on_battery: bool | None = None
    free: int | None = None  # bytes of memory
    room: int | None = None  # bytes of the disk on which the node keeps its things
    paused: bool = False  # by the owner


def rests(limits: Limits, machine: Machine) -> str:
    """Why the node must not work now; empty: it may. In words that stay the same while the reason does: each change is told."""
    if machine.paused:
        return "paused by its owner"
    if limits.hours is not None and not within(limits.hours, machine.now):
        return f"works from {clock(limits.hours[0])} to {clock(limits.hours[1])} only"
    if machine.on_battery and not limits.battery:
        return "the machine runs on battery"
    if limits.only_idle:
        if machine.untouched is None:
            return "whether somebody is at the machine cannot be found out"
        if machine.untouched < IDLE:
            return f"somebody is at the machine ({IDLE / 60:g} minutes without a key or the mouse are waited for)"
        if machine.others is not None and machine.others > BUSY:
            return f"other programs use more than {BUSY:.0%} of the processors"
    if machine.free is not None and machine.free < spare(limits):
        return f"{SHORT} {spare(limits) >> 20} MB"
    if machine.room is not None and machine.room < ROOM:
        return f"its disk has less room than {ROOM >> 20} MB"
    return ""


def spare(limits: Limits) -> int:
    """Bytes of memory that stay free for the owner, so that nothing is swapped out for the node's sake."""
    return SPARE if limits.memory is None else max(SPARE // 4, limits.memory // 8)


def within(hours: tuple[int, int], now: datetime) -> bool:
    first, last = hours
    minute = now.hour * 60 + now.minute
    return first <= minute < last if first < last else minute >= first or minute < last


def clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def read(
    *,
    cpu: str = "100%",
    memory: str | None = None,
    only_idle: bool = False,
    hours: str | None = None,
    battery: bool = False,
    private: bool = False,
) -> Limits:
    """From the words of a command line. L008 for what cannot be."""
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", cpu)
    if not share or not 1 <= float(share[1]) <= 100:
        raise LaminarError("L008", f"--cpu {cpu}: expected a share of the processors from 1% to 100%", hint="--cpu 50%")
    size = parse_bytes(memory) if memory is not None else None
    if memory is not None and (size is None or size < SMALLEST):
        raise LaminarError("L008", f"--memory {memory}: expected a size of {SMALLEST >> 20} MiB or more", hint="--memory 4G")
    found = None
    if hours is not None:
        match = _HOURS.fullmatch(hours)
        values = [int(word or 0) for word in match.groups()] if match else [99, 0, 0, 0]
        first, last = values[0] * 60 + values[1], values[2] * 60 + values[3]
        if first > 1440 or last > 1440 or values[1] > 59 or values[3] > 59 or first % 1440 == last % 1440:
            raise LaminarError("L008", f"--hours {hours}: expected two times of the day that differ", hint="--hours 18-8, or 22:30-6:00")
        found = (first % 1440, last % 1440)
    return Limits(float(share[1]) / 100, size, only_idle, found, battery, private)
