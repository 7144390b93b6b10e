"""Login files: what each system wants to read to start a node when its owner logs in. Pure: words in, text out.

None of them has the token in it: what the node needs to go back to its grid is in its folder.
"""

from __future__ import annotations

import plistlib
import re
import subprocess
from collections.abc import Sequence
from typing import Final

ABOUT: Final = "Lends this machine to a grid; laminar grid leave removes it"
ROOM: Final = 384 << 20  # bytes for the process that minds the owner, beside what tasks may take
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def systemd_unit(words: Sequence[str], memory: int | None) -> str:
    """Ends that are somebody's decision (a ban, an option that is wrong, a node that runs already) are not begun again. Only the
    keeper is told to end: it ends the process that computes, and keeps the task."""
    limit = f"MemoryMax={memory + ROOM}\n" if memory is not None else ""
    return f"""\
[Unit]
Description=Laminar node. {ABOUT}

[Service]
ExecStart={" ".join(_systemd_word(word) for word in words)}
Restart=on-failure
RestartSec=60
RestartPreventExitStatus=2 5
KillMode=mixed
Nice=19
IOSchedulingClass=idle
OOMPolicy=continue
MemorySwapMax=0
{limit}
[Install]
WantedBy=default.target
"""


def _systemd_word(word: str) -> str:
    """systemd.service(5), systemd.syntax(7): % and $ stand for something else when they are alone."""
    safe = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(safe):
        return safe
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def desktop_entry(words: Sequence[str]) -> str:
    """For desktops without systemd: the XDG autostart specification."""
    return f"""\
[Desktop Entry]
Type=Application
Version=1.0
Name=Laminar node
Comment={ABOUT}
Exec={" ".join(_desktop_word(word) for word in words)}
Terminal=false
NoDisplay=true
"""


def _desktop_word(word: str) -> str:
    """Escaped twice: as an argument, and as the value of a key, in which a backslash is two."""
    safe = word.replace("%", "%%")
    if _PLAIN.fullmatch(safe):
        return safe
    quoted = '"' + re.sub(r'(["`$\\])', r"\\\1", safe) + '"'
    return quoted.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def launchd_plist(label: str, words: Sequence[str], log: str) -> bytes:
    """Begun again only after a crash: an end with an error is one that trying again does not mend."""
    return plistlib.dumps(
        {
            "Label": label,
            "ProgramArguments": list(words),
            "RunAtLoad": True,
            "KeepAlive": {"Crashed": True},
            "ProcessType": "Background",
            "Nice": 19,
            "LowPriorityIO": True,
            "StandardErrorPath": log,
        }
    )


def startup_script(words: Sequence[str]) -> str:
    """For the Startup folder of Windows. A window that lies below shows that the node is there, and can be closed."""
    line = " ".join(_cmd_word(word) for word in words)
    return f'@echo off\r\nrem {ABOUT}\r\nchcp 65001 >nul\r\nstart "Laminar node" /min /low {line}\r\n'


def _cmd_word(word: str) -> str:
    """Quoted as programs read it, and also where only cmd would take a sign for its own."""
    made = subprocess.list2cmdline([word]).replace("%", "%%")
    if made.startswith('"') or not re.search(r"[&|<>^()!,;=']", made):
        return made
    return '"' + re.sub(r"(\\+)$", r"\1\1", made) + '"'
