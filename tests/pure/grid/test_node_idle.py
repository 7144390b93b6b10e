"""Is somebody at the machine? What the ways of looking say, how it is put together, and what their words mean."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from typing import Any

import pytest

from laminar.grid.node import idle_ways
from laminar.grid.node.idle import Readings, Session, Still, device_interrupts, doubt, session_of, untouched

BUSY, IDLE, OTHER = Session("2", True, None), Session("2", True, 900.0), Session("4", False, None)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        (Readings(), None),
        (Readings(terminals=50.0), 50.0),  # a server without screens
        (Readings(terminals=50.0, sessions=()), 50.0),
        (Readings(terminals=5000.0, graphical=True), None),  # a screen that nothing sees
        (Readings(terminals=5000.0, sessions=(), graphical=True), None),  # startx: logind does not know of it
        (Readings(terminals=5000.0, interrupts=3.0, graphical=True), 3.0),
        (Readings(terminals=5000.0, interrupts=3.0), 5000.0),  # no screen: what moves on USB is no person
        (Readings(terminals=5000.0, desktop=7.0, graphical=True), 7.0),
        (Readings(desktop=600.0, sessions=(BUSY,), interrupts=0.0), 600.0),  # the desktop knows; USB may be a disk's
        (Readings(desktop=600.0, sessions=(BUSY, OTHER)), 0.0),  # another person's session is said to be in use
        (Readings(desktop=600.0, sessions=(BUSY, OTHER), interrupts=40.0), 40.0),
        (Readings(sessions=(IDLE,), terminals=5000.0), 900.0),
        (Readings(sessions=(IDLE, replace(OTHER, idle=20.0))), 20.0),
        (Readings(sessions=(BUSY,), terminals=5000.0), 0.0),  # it says that it is in use, and nothing else is known
        (Readings(sessions=(BUSY,), interrupts=400.0), 400.0),
        (Readings(sessions=(IDLE,), terminals=1.0), 1.0),  # somebody is here from afar
    ],
)
def test_the_one_who_was_here_last_counts(found: Readings, seconds: float | None) -> None:
    assert untouched(found) == seconds


def test_what_cannot_be_seen_is_said_with_what_was_tried() -> None:
    tried = ("logind: not there", "terminals: cannot be read")
    assert "cannot be found out" in doubt(Readings(tried=tried)) and all(way in doubt(Readings(tried=tried)) for way in tried)
    silent = doubt(Readings(sessions=(BUSY,), tried=tried))
    assert "session 2" in silent and "rest for ever" in silent
    for clear in (Readings(sessions=(IDLE,)), Readings(sessions=(BUSY,), desktop=1.0), Readings(sessions=(BUSY,), interrupts=1.0)):
        assert doubt(clear) == ""


SESSION = "Id=2\nUser=1000\nType=wayland\nClass=user\nState=active\nIdleHint=yes\nIdleSinceHint=1700000000000000\nDisplay=:1\n"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("", ""), Session("2", True, 60.0, ":1")),
        (("User=1000", "User=1001"), Session("2", False, 60.0, ":1")),
        (("IdleHint=yes", "IdleHint=no"), Session("2", True, None, ":1")),
        (("IdleSinceHint=1700000000000000", "IdleSinceHint=0"), Session("2", True, None, ":1")),
        (("Type=wayland", "Type=tty"), None),
        (("Class=user", "Class=greeter"), None),
        (("State=active", "State=closing"), None),
        (("State=active", "State=online"), Session("2", True, 60.0, ":1")),
    ],
)
def test_words_of_logind(change: tuple[str, str], found: Session | None) -> None:
    assert session_of(SESSION.replace(*change), uid=1000, now=1700000060.0) == found


INTERRUPTS = """\
           CPU0       CPU1
  1:        100          9   IO-APIC   1-edge      i8042
  8:          1          0   IO-APIC   8-edge      rtc0
 51:          0       4000   IR-PCI-MSI 327680-edge      xhci_hcd
 52:         20          1   IR-IO-APIC  109-fasteoi   ELAN0501:00
120:      77777          0   IR-PCI-MSI 409600-edge      nvme0q0
NMI:         12         13   Non-maskable interrupts
ERR:          0
"""


def test_interrupts_of_keyboards_and_mice_are_told_from_others() -> None:
    assert device_interrupts(INTERRUPTS, usb=False) == 130
    assert device_interrupts(INTERRUPTS, usb=True) == 4130
    without = "\n".join(line for line in INTERRUPTS.splitlines() if "i8042" not in line and "ELAN" not in line)
    assert device_interrupts(without, usb=False) is None
    assert device_interrupts("", usb=True) is None


def test_a_count_stands_still_from_when_it_last_moved() -> None:
    still = Still()
    assert [still.seconds(count, at) for count, at in ((5, 10.0), (5, 40.0), (6, 41.0), (6, 50.5))] == [0.0, 30.0, 0.0, 9.5]
    assert still.seconds(None, 60.0) is None


def test_logind_is_asked_for_each_session(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"2": SESSION.replace("User=1000", f"User={idle_ways.os.getuid()}"), "c1": SESSION.replace("=user", "=greeter"), "9": None}

    def said(words: list[str]) -> str | None:
        if "list-sessions" in words:
            return " 2 1000 ann seat0 tty2\nc1 120 gdm seat0 tty1\n 9 1000 ann\n\n"
        return told[words[2]]

    monkeypatch.setattr("laminar.grid.node.idle_ways.time.time", lambda: 1700000060.0)
    assert idle_ways.logind_sessions(said) == (Session("2", True, 60.0, ":1"),)
    assert idle_ways.logind_sessions(lambda _: None) is None


def test_mutter_counts_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", "ubuntu:GNOME")
    assert idle_ways.mutter_idle(lambda _: "(uint64 61500,)\n") == 61.5
    assert idle_ways.mutter_idle(lambda _: None) is None
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", "KDE")
    assert idle_ways.mutter_idle(lambda _: "(uint64 61500,)\n") is None


class FakeUser32:
    def GetLastInputInfo(self, pointer: Any) -> int:
        assert pointer._obj.size == 8
        pointer._obj.time = 0xFFFFFF00  # just before the counter of milliseconds begins anew
        return 1


class FakeWindows:
    user32 = FakeUser32()

    class kernel32:
        GetTickCount = staticmethod(lambda: 0x1000)


def test_windows_counts_over_the_end_of_its_counter() -> None:
    assert idle_ways.windows_idle(FakeWindows) == pytest.approx(4.352)


def test_macos_is_asked_for_any_input() -> None:
    asked = []

    class Library:
        class CGEventSourceSecondsSinceLastEventType:
            restype: Any = None
            argtypes: Any = None

            def __new__(cls, *words: int) -> Any:
                asked.append(words)
                return 12.5

    assert idle_ways.mac_idle(Library) == 12.5 and asked == [(1, 0xFFFFFFFF)]
    assert Library.CGEventSourceSecondsSinceLastEventType.restype is ctypes.c_double


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and /dev")
def test_this_machine_can_be_looked_at() -> None:
    """Whatever it has: nothing raises, and every way says what it found."""
    found = idle_ways.Ways().look()
    assert len(found.tried) == 5
    assert found.terminals is None or found.terminals >= 0


@pytest.mark.skipif(sys.platform != "linux", reason="Xlib")
def test_a_screen_that_is_not_there_is_no_reading() -> None:
    assert idle_ways.screen_idle("") is None
    assert idle_ways.screen_idle(":987") is None
