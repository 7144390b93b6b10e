"""At login: have this system start the node whenever its owner logs in, and take that back. Never as root, never for anybody else."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.grid.node.home import default_home
from laminar.grid.node.login_files import desktop_entry, launchd_plist, startup_script, systemd_unit

BOOTED: Final = Path("/run/systemd/system")  # is there where systemd is (sd_booted(3))
PATIENCE: Final = 10.0  # seconds for the system to hear of it


@dataclass(frozen=True)
class Entry:
    """Where the system looks, and what is said about it."""

    kind: str
    path: Path
    links: Path | None  # a link to it that makes it count
    start: str = ""  # a command that starts it now
    stop: tuple[str, ...] = ()  # one that ends what the system has started
    reload: tuple[str, ...] = ()


def entry_of(
    home: Path, *, platform: str = sys.platform, environment: Mapping[str, str] = os.environ, systemd: bool | None = None
) -> Entry:
    """Each node, that is each folder, has its own."""
    name = "laminar-node" if home == default_home() else f"laminar-node-{hashlib.sha256(str(home).encode()).hexdigest()[:8]}"
    person = Path(environment["USERPROFILE"] if platform == "win32" and "USERPROFILE" in environment else Path.home())
    if platform == "win32":
        folder = Path(environment.get("APPDATA", person / "AppData" / "Roaming")) / "Microsoft" / "Windows" / "Start Menu" / "Programs"
        path = folder / "Startup" / f"{name}.cmd"
        return Entry("a script in the Startup folder", path, None, f'"{path}"')
    if platform == "darwin":
        path, label = person / "Library" / "LaunchAgents" / f"org.laminar.{name}.plist", f"org.laminar.{name}"
        domain = f"gui/{os.getuid()}"
        return Entry(
            "an agent of launchd", path, None, f"launchctl bootstrap {domain} '{path}'", ("launchctl", "bootout", f"{domain}/{label}")
        )
    config = Path(environment.get("XDG_CONFIG_HOME") or person / ".config")
    if BOOTED.exists() if systemd is None else systemd:
        path = config / "systemd" / "user" / f"{name}.service"
        link = path.parent / "default.target.wants" / path.name
        control = ("systemctl", "--user")
        return Entry(
            "a unit of systemd", path, link, f"systemctl --user start {name}", (*control, "stop", name), (*control, "daemon-reload")
        )
    return Entry("an entry of the desktop's autostart", config / "autostart" / f"{name}.desktop", None)


def words_of(home: Path, options: Sequence[str]) -> list[str]:
    """The command that goes back to the grid that was joined, with the owner's limits. No token."""
    return [sys.executable, "-m", "laminar", "grid", "join", "--home", str(home), *options]


def text_of(entry: Entry, words: Sequence[str], memory: int | None, home: Path) -> bytes:
    match entry.path.suffix:
        case ".service":
            return systemd_unit(words, memory).encode()
        case ".desktop":
            return desktop_entry(words).encode()
        case ".plist":
            return launchd_plist(entry.path.stem, words, str(home / "log"))
        case _:
            return startup_script(words).encode()


def put(entry: Entry, text: bytes) -> None:
    """L302 where the owner may not write there."""
    try:
        entry.path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(entry.path, text)
        if entry.links is not None:
            entry.links.parent.mkdir(parents=True, exist_ok=True)
            entry.links.unlink(missing_ok=True)
            entry.links.symlink_to(Path("..") / entry.path.name)
    except OSError as error:
        raise LaminarError("L302", f"{entry.path} cannot be written: {error}", hint="join without --at-login") from error
    _tell(entry.reload)


def remove(entry: Entry) -> bool:
    """Was it there? What the system has started of it is ended."""
    found = entry.path.exists()
    if found:
        _tell(entry.stop)
    for path in (entry.links, entry.path):
        if path is not None:
            path.unlink(missing_ok=True)
    if found:
        _tell(entry.reload)
    return found


def _tell(words: tuple[str, ...]) -> None:
    """The system hears of it at the next login at the latest."""
    if words:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL)
