"""Idle: since when nobody has touched the machine. Pure: what several ways of looking have read in, one number out.

No single way sees everything on Linux. A desktop knows exactly, of itself (X screen saver, Mutter); logind knows all graphical sessions,
but only whether they say that they are idle, and some never do; interrupts of keyboards and mice are told of all, but only while somebody
watches; terminals are what people use from afar, and all there is where nothing is graphical. So each session is looked at the best way
there is for it, and the one that was touched last counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final

PEOPLE: Final = "user"  # class of sessions that are not a greeter's or a lock screen's
GRAPHICAL: Final = ("x11", "wayland", "mir")
DEVICES: Final = re.compile(r"i8042|i2c[-_]hid|hid[-_]|keyboard|mouse|touch|ELAN|SYNA|WACF", re.IGNORECASE)
USB: Final = re.compile(r"[xeuo]hci[-_:]", re.IGNORECASE)


@dataclass(frozen=True)
class Session:
    """A graphical one, as logind tells it."""

    id: str
    mine: bool
    idle: float | None  # seconds since it said so; None: it says that it is not, or never says anything
    display: str = ""


@dataclass(frozen=True)
class Readings:
    """Seconds since a key or the mouse; None: cannot be read that way."""

    desktop: float | None = None  # of the owner's own desktop, exactly
    sessions: tuple[Session, ...] | None = None
    interrupts: float | None = None
    terminals: float | None = None
    graphical: bool = False  # there are signs of a graphical session, whoever's
    tried: tuple[str, ...] = ()  # each way with what it has found, for people


def untouched(found: Readings) -> float | None:
    """Seconds since anybody has touched the machine; None: that cannot be said. Where ways differ, the more careful one is right."""
    said = [seconds for seconds in (found.terminals, found.desktop) if seconds is not None]
    if found.sessions:
        said += [_of_session(found, session) for session in found.sessions]
    elif found.graphical and found.desktop is None:  # a session that logind does not know, as startx makes them
        if found.interrupts is None:
            return None  # somebody may sit there, and nothing sees him
        said.append(found.interrupts)
    return min(said, default=None)


def _of_session(found: Readings, session: Session) -> float:
    if session.mine and found.desktop is not None:
        return found.desktop
    if session.idle is not None:
        return session.idle
    return 0.0 if found.interrupts is None else found.interrupts  # it may be one that never says that it is idle


def doubt(found: Readings) -> str:
    """What the owner should know before he relies on it; empty: nothing."""
    tried = "; ".join(found.tried)
    if untouched(found) is None:
        return f"whether somebody is at the machine cannot be found out here, so the node will rest ({tried})"
    silent = [
        session.id
        for session in found.sessions or ()
        if session.idle is None and found.interrupts is None and not (session.mine and found.desktop is not None)
    ]
    if silent:
        return (
            f"session {', '.join(silent)} says that it is in use, and nothing else can be read of it: "
            f"if its desktop never says that it is idle, the node will rest for ever ({tried})"
        )
    return ""


# What the system's words mean


def session_of(text: str, *, uid: int, now: float) -> Session | None:
    """From `loginctl show-session`; None if it is not graphical, not a person's, or over. `now`: seconds since 1970."""
    told = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if told.get("Type") not in GRAPHICAL or told.get("Class", PEOPLE) != PEOPLE or told.get("State") == "closing":
        return None
    since = told.get("IdleSinceHint", "0")
    idle = max(0.0, now - int(since) / 1e6) if told.get("IdleHint") == "yes" and since.isdigit() and int(since) else None
    return Session(told.get("Id", "?"), told.get("User") == str(uid), idle, told.get("Display", ""))


def device_interrupts(text: str, *, usb: bool) -> int | None:
    """How many interrupts of keyboards and mice there were, from /proc/interrupts; None: there is no such device.

    `usb`: some are on USB, where a controller counts for all that hangs on it. Whatever else does is taken for a touch as well.
    """
    total, found = 0, False
    for line in text.splitlines():
        _, colon, rest = line.partition(":")
        if colon and (DEVICES.search(rest) or (usb and USB.search(rest))):
            found = True
            total += sum(int(word) for word in _counts(rest))
    return total if found else None


def _counts(rest: str) -> list[str]:
    words = rest.split()
    end = next((i for i, word in enumerate(words) if not word.isdigit()), len(words))
    return words[:end]


@final
class Still:
    """Since when a count has stood still; when it is first seen, it has just moved: whoever started the node was there."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._moved = 0.0

    def seconds(self, count: int | None, now: float) -> float | None:
        if count is None:
            return None
        if count != self._last:
            self._last, self._moved = count, now
        return now - self._moved
