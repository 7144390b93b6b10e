"""The process that computes for strangers has given up what it does not need, and is ended when a task computes for ever."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from laminar.core.confine import few_variables
from laminar.grid.node.home import Home
from laminar.grid.node.keeper import Keeper

CONFINED = """
import json, os, socket, subprocess, sys
from pathlib import Path
{libraries}
from laminar.grid.node import child, {module}

home, other, cache = map(Path, sys.argv[1:])
threads = len(os.listdir("/proc/self/task"))
held = {module}.{confine}
tries = {{
    "answers": lambda: (home / "answers" / "1").write_text("mine"),
    "opened": lambda: (home / "opened" / "1").write_text("mine"),
    "read opened": lambda: (home / "opened" / "data").read_text(),
    "read graphs": lambda: (home / "files" / "graph").read_text(),
    "change graphs": lambda: (home / "files" / "graph").write_text("another"),
    "key": lambda: (home / "key").read_text(),
    "cache": lambda: (cache / "files" / "1").write_text("mine"),
    "read kernels": lambda: (cache / "kernels" / "1").read_text(),
    "network": lambda: socket.socket().close(),
    "others": lambda: other.read_text(),
    "programs": lambda: subprocess.run(["true"]),
}}
done = []
for name, attempt in tries.items():
    try:
        attempt()
        done.append(name)
    except OSError:
        pass
os.write(1, json.dumps([threads, sorted(held), done]).encode())
"""
OF_FILES = {"answers", "opened", "read opened", "read graphs", "change graphs", "key", "cache", "read kernels", "others"}


@pytest.mark.skipif(sys.platform != "linux", reason="what a system offers differs")
@pytest.mark.parametrize(
    ("module", "confine", "libraries", "wanted"),
    [
        (
            "worker_process",
            "_give_up_the_rest(home, None)",
            "import torch, laminar.grid.node.worker",
            {"answers", "read opened", "read graphs", "read kernels"},
        ),
        (
            "data_process",
            "give_up_the_rest(home)",
            "import PIL.Image",
            {"opened", "read opened", "cache", "read kernels", "network"},
        ),
    ],
)
def test_each_process_keeps_what_it_needs_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, confine: str, libraries: str, wanted: set[str]
) -> None:
    """And gives up the rest before it has threads, which would keep it."""
    home, elsewhere, cache = Home(tmp_path / "home"), tmp_path / "somebody's.txt", tmp_path / "cache"
    (cache / "kernels").mkdir(parents=True)
    for path in (home.root / "key", home.root / "files" / "graph", home.root / "opened" / "data", cache / "kernels" / "1", elsewhere):
        path.write_text("not for strangers")
    monkeypatch.setenv("LAMINAR_CACHE", str(cache))
    script = CONFINED.format(module=module, confine=confine, libraries=libraries)
    words = [sys.executable, "-c", script, str(home.root), str(elsewhere), str(cache)]
    done = subprocess.run(words, capture_output=True, check=True, cwd=home.root, env=few_variables())
    threads, held, succeeded = json.loads(done.stdout)
    assert threads == 1
    free = (OF_FILES if "files" not in held else set()) | ({"programs", "network"} - {*held})
    assert set(succeeded) == wanted | free


SIGNALS = """
import ctypes, json, os, sys
from laminar.core.confine import confine

held = confine()
libc, parent = ctypes.CDLL(None, use_errno=True), os.getppid()
ways = {"kill": (62, 129, parent, 0), "tkill": (200, 130, parent, 0), "tgkill": (234, 131, parent, parent, 0)}
reached = [name for name, (x86, arm, *words) in ways.items() if libc.syscall(x86 if os.uname().machine == "x86_64" else arm, *words) == 0]
os.write(1, json.dumps(["programs" in held, reached]).encode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a system offers differs")
def test_a_confined_process_signals_nobody() -> None:
    """Signal 0 asks only whether a process could be signalled."""
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, check=True)
    filtered, reached = json.loads(done.stdout)
    assert reached == ([] if filtered else ["kill", "tkill", "tgkill"])


class Endless:
    """A computing process that never answers."""

    why = ""

    def answer(self, timeout: float) -> dict[str, Any] | None:
        return {"error": self.why, "code": "died"} if self.why else None

    def end(self, why: str) -> None:
        self.why = why


def test_a_task_that_computes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 400))
    monkeypatch.setattr("laminar.grid.node.keeper.time.monotonic", lambda: float(next(now)))
    keeper = Keeper.__new__(Keeper)
    keeper._stop, keeper._rested, computer = threading.Event(), 0.0, Endless()
    keeper._computer = computer  # type: ignore[assignment]
    looks: list[float] = []

    def minds_owner() -> str:
        looks.append(keeper._rested)
        keeper._rested += 400.0 if len(looks) < 5 else 0.0  # the owner was there for the first looks, and that does not count
        return ""

    monkeypatch.setattr(keeper, "_minds_owner", minds_owner)
    assert keeper._wait(1000.0) == {"error": "it computed for more than 1,000 s", "code": "died"}
    assert len(looks) > 5
