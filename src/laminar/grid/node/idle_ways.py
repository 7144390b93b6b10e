"""Ways to see whether somebody is at the machine: Windows and macOS are asked, on Linux several things are looked at (idle.py decides).

The times of /dev/input are no way: the kernel does not change them when a device is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

from laminar.grid.node.idle import Readings, Session, Still, device_interrupts, session_of

SELDOM: Final = 2.0  # seconds between looks that start a process
PATIENCE: Final = 3.0  # seconds that such a process has
_MAC: Final = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"
_HID_STATE, _ANY_INPUT = 1, 0xFFFFFFFF  # kCGEventSourceStateHIDSystemState, kCGAnyInputEventType
_MUTTER: Final = [
    *("gdbus", "call", "--session", "--dest", "org.gnome.Mutter.IdleMonitor"),
    *("--object-path", "/org/gnome/Mutter/IdleMonitor/Core", "--method", "org.gnome.Mutter.IdleMonitor.GetIdletime"),
]
_PROPERTIES: Final = ["-p", "Id", "-p", "User", "-p", "Type", "-p", "Class", "-p", "State", "-p", "IdleHint", "-p", "IdleSinceHint"]


@final
class Ways:
    """All that this system has; what they need between two looks is kept."""

    def __init__(self) -> None:
        self._still = Still()
        self._asked, self._seldom = -SELDOM, Readings()

    def look(self) -> Readings:
        if sys.platform == "win32":
            found = windows_idle()
            return Readings(desktop=found, graphical=True, tried=(_tried("GetLastInputInfo", found),))
        if sys.platform == "darwin":
            found = mac_idle()
            return Readings(desktop=found, graphical=True, tried=(_tried("CGEventSource", found),))
        return self._linux()

    def _linux(self) -> Readings:
        now = time.monotonic()
        if now - self._asked >= SELDOM:
            sessions, mutter = logind_sessions(), mutter_idle()
            self._seldom, self._asked = Readings(desktop=mutter, sessions=sessions), now
        sessions, mutter = self._seldom.sessions, self._seldom.desktop
        mine = next((one.display for one in sessions or () if one.mine and one.display), "")
        screen = screen_idle(os.environ.get("DISPLAY") or mine) if mutter is None and not _wayland() else None
        interrupts = self._still.seconds(_interrupts(), now)
        terminals = terminal_idle()
        desktop = mutter if mutter is not None else screen
        logind = "logind: not there" if sessions is None else f"logind: {len(sessions)} graphical sessions"
        return Readings(
            desktop,
            sessions,
            interrupts,
            terminals,
            graphical=bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or any(_glob("/tmp/.X11-unix", "X*"))),
            tried=(
                logind,
                _tried("Mutter", mutter),
                _tried("X screen saver", screen),
                _tried("interrupts of keyboards and mice", interrupts),
                _tried("terminals", terminals),
            ),
        )


def _tried(way: str, seconds: float | None) -> str:
    return f"{way}: {'cannot be read' if seconds is None else f'{seconds:.0f} s'}"


# Linux


def _said(words: list[str]) -> str | None:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def logind_sessions(said: Callable[[list[str]], str | None] = _said) -> tuple[Session, ...] | None:
    """Graphical sessions of people; None where there is no logind."""
    listed = said(["loginctl", "list-sessions", "--no-legend", "--no-pager"])
    if listed is None:
        return None
    found = []
    for name in [line.split()[0] for line in listed.splitlines() if line.strip()]:
        told = said(["loginctl", "show-session", name, *_PROPERTIES, "-p", "Display"])  # None: it has just ended
        session = session_of(told, uid=os.getuid(), now=time.time()) if told is not None else None
        if session is not None:
            found.append(session)
    return tuple(found)


def mutter_idle(said: Callable[[list[str]], str | None] = _said) -> float | None:
    """GNOME's own count, also of Wayland."""
    if "GNOME" not in os.environ.get("XDG_CURRENT_DESKTOP", "GNOME" if "DBUS_SESSION_BUS_ADDRESS" in os.environ else ""):
        return None
    found = re.search(r"uint64 (\d+)", said(_MUTTER) or "")
    return int(found[1]) / 1000 if found else None


def _wayland() -> bool:
    """There the X server sees only what is done to old programs."""
    return "WAYLAND_DISPLAY" in os.environ or os.environ.get("XDG_SESSION_TYPE") == "wayland"


class _Info(ctypes.Structure):
    """XScreenSaverInfo."""

    _fields_ = (
        ("window", ctypes.c_ulong),
        ("state", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("til_or_since", ctypes.c_ulong),
        ("idle", ctypes.c_ulong),  # milliseconds
        ("event_mask", ctypes.c_ulong),
    )


@lru_cache(maxsize=1)
def _libraries() -> tuple[Any, Any] | None:
    """Xlib and the screen saver's extension."""
    try:
        x: Any = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        xss: Any = ctypes.CDLL(ctypes.util.find_library("Xss") or "libXss.so.1")
        x.XOpenDisplay.restype, x.XOpenDisplay.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        x.XCloseDisplay.argtypes = [ctypes.c_void_p]
        x.XDefaultRootWindow.restype, x.XDefaultRootWindow.argtypes = ctypes.c_ulong, [ctypes.c_void_p]
        xss.XScreenSaverQueryInfo.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(_Info)]
    except (OSError, AttributeError):
        return None
    return x, xss


def screen_idle(name: str) -> float | None:
    """The X server's count. Each look has a connection of its own: Xlib ends the process when one breaks."""
    libraries = _libraries() if name else None
    display = libraries[0].XOpenDisplay(name.encode()) if libraries is not None else None
    if libraries is None or display is None:
        return None
    x, xss = libraries
    info = _Info()
    try:
        if not xss.XScreenSaverQueryInfo(display, x.XDefaultRootWindow(display), ctypes.byref(info)):
            return None
    finally:
        x.XCloseDisplay(display)
    return float(info.idle) / 1000


def _interrupts() -> int | None:
    try:
        usb = any(":" in path.name for path in _glob("/sys/bus/usb/drivers/usbhid", "[0-9]*"))
        return device_interrupts(Path("/proc/interrupts").read_text(), usb=usb)
    except (OSError, ValueError):
        return None


def terminal_idle() -> float | None:
    """Whoever types at a console, in a terminal, or from another machine."""
    times = []
    for path in [*_glob("/dev", "tty[0-9]*"), *_glob("/dev/pts", "[0-9]*")]:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_atime)
    return max(0.0, time.time() - max(times)) if times else None


def _glob(folder: str, pattern: str) -> list[Path]:
    try:
        return list(Path(folder).glob(pattern))
    except OSError:
        return []


# Windows and macOS


def windows_idle(windows: Any = None) -> float | None:
    class Last(ctypes.Structure):
        _fields_ = (("size", ctypes.c_uint), ("time", ctypes.c_uint))

    windows = windows or getattr(ctypes, "windll", None)
    if windows is None:
        return None
    last = Last(ctypes.sizeof(Last), 0)
    if not windows.user32.GetLastInputInfo(ctypes.byref(last)):
        return None
    ticks: int = windows.kernel32.GetTickCount()
    return float((ticks - last.time) & 0xFFFFFFFF) / 1000


def mac_idle(library: Any = None) -> float | None:
    try:
        library = library or ctypes.CDLL(_MAC)
        seconds = library.CGEventSourceSecondsSinceLastEventType
    except (OSError, AttributeError):
        return None
    seconds.restype, seconds.argtypes = ctypes.c_double, [ctypes.c_int32, ctypes.c_uint32]
    return float(seconds(_HID_STATE, _ANY_INPUT))
