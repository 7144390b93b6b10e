"""Home: what a node keeps on its disk. Everything in it can be deleted but the key, which is the node.

key                     of the node, for its owner only
server.json             which server, and the key that it had when the node joined
files/<sha256>          graphs and descriptions; versions/<run>/<number> of models
tasks/<result>.json     tasks that are not answered yet
sent/<result>.json      tasks whose answers were brought, and may have to be put back into what compression keeps (sent.py)
answers/<result>        the answers to both
halfway/<result>        how far a task is that takes long (halfway.py)
residuals/<run>         what compression has kept back; <run>.offered while it is handed in (tidy.py)
data/                   caches of the data sets; opened/<digest> data of tasks, ready to be mapped (data_files.py)
limits.json             what its owner said about it when it joined (owner_words.py)
habits.json             which share of the time it may work, and how fast it is (habits.py)
paused                  is there while the owner wants no work to be done
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final, final

import msgspec
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.grid.wire.messages import About, Task
from laminar.grid.wire.signing import Key

VERSIONS: Final = 4  # of a run, that are kept to make others from
OFFERED: Final = ".offered"
TAG: Final = "result"  # in a residual: whose answer is not in it any more
FOLDERS: Final = ("files", "versions", "tasks", "sent", "answers", "halfway", "residuals", "data", "opened")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    key: str
    node: str
    grid: str


def default_home() -> Path:
    """Where programs of this system keep what they remember."""
    if "LAMINAR_NODE" in os.environ:
        return Path(os.environ["LAMINAR_NODE"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "laminar" / "node"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "laminar" / "node"
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "laminar" / "node"


def home_of_node(root: Path | None) -> Home:
    """L503 where there is no node: who wants one to rest must not be told that it does when another was meant."""
    place = root or default_home()
    if not (place / "key").exists():
        raise LaminarError("L503", f"there is no node in {place}", hint="--home DIR is the folder that the node was given when it joined")
    return Home(place)


@final
class Home:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._versions: dict[str, tuple[Path, list[int]]] = {}  # of runs: where they are, and which
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)

    @property
    def key(self) -> Key:
        return Key.kept(self.root / "key")

    # The server

    def server(self) -> Server | None:
        try:
            return msgspec.json.decode((self.root / "server.json").read_bytes(), type=Server)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LaminarError("L502", f"{self.root / 'server.json'} cannot be read: {error}", hint="delete it and join again") from error

    def pin(self, server: Server) -> None:
        atomic.write_bytes(self.root / "server.json", msgspec.json.encode(server), mode=0o600)

    # Files and versions

    def has_file(self, sha256: str) -> bool:
        return (self.root / "files" / sha256).exists()

    def file(self, sha256: str) -> bytes:
        data = (self.root / "files" / sha256).read_bytes()
        if digest.of_bytes(data) != sha256:
            with contextlib.suppress(OSError):  # the process that computes may only read it
                (self.root / "files" / sha256).unlink()
            raise LaminarError("L303", f"{sha256[:12]}… on this node's disk is damaged", hint="it is fetched again")
        return data

    def keep_file(self, sha256: str, data: bytes) -> None:
        if digest.of_bytes(data) != sha256:
            raise LaminarError("L403", f"the server sent something else than {sha256[:12]}…", hint="ask whoever runs the grid")
        atomic.write_bytes(self.root / "files" / sha256, data)

    def abouts(self) -> dict[str, About]:
        """Descriptions of runs on the disk, by sha256."""
        found = {}
        for path in (self.root / "files").iterdir():
            try:
                with path.open("rb") as file:
                    if file.read(1) == b"{":  # the rest are graphs and tensors, which may be large
                        found[path.name] = msgspec.json.decode(b"{" + file.read(), type=About)
            except (msgspec.DecodeError, OSError, UnicodeDecodeError):
                continue
        return found

    @staticmethod
    def mark(run: str) -> str:
        """The name of a run in the names of files."""
        return digest.short(digest.of_bytes(run.encode()))

    def at_work_for(self, run: str) -> None:
        """What is here of the run was needed just now (tidy.py)."""
        with contextlib.suppress(OSError):
            os.utime(self._versions_of(run)[0])

    def drop_versions(self, mark: str) -> None:
        self._versions = {run: found for run, found in self._versions.items() if self.mark(run) != mark}
        shutil.rmtree(self.root / "versions" / mark, ignore_errors=True)

    def version_path(self, run: str, number: int) -> Path:
        return self._versions_of(run)[0] / str(number)

    def newest(self, run: str) -> int | None:
        return max(self._versions_of(run)[1], default=None)

    def keep_version(self, run: str, number: int, data: bytes) -> None:
        """Not flushed: what is lost is fetched again, and its digest is checked by each process that finds it."""
        folder, numbers = self._versions_of(run)
        folder.mkdir(exist_ok=True)
        atomic.write_unflushed(folder / str(number), data)
        others = sorted({*numbers} - {number}, reverse=True)  # the one that is needed now may be older than all of them
        for one in others[VERSIONS - 1 :]:
            (folder / str(one)).unlink(missing_ok=True)
        numbers[:] = [number, *others[: VERSIONS - 1]]

    def _versions_of(self, run: str) -> tuple[Path, list[int]]:
        """Looked for once: nobody else writes them while this process is the node."""
        found = self._versions.get(run)
        if found is None:
            folder = self.root / "versions" / self.mark(run)
            found = self._versions[run] = folder, [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()]
        return found

    # Tasks and answers

    def note_task(self, task: Task) -> None:
        """Not flushed: a task that is forgotten is sent again."""
        atomic.write_unflushed(self.root / "tasks" / f"{task.result}.json", msgspec.json.encode(task))

    def tasks(self) -> list[Task]:
        """Those that were begun before a reboot."""
        return self._noted("tasks")

    def forget_task(self, result: int) -> None:
        (self.root / "tasks" / f"{result}.json").unlink(missing_ok=True)
        self.halfway_path(result).unlink(missing_ok=True)

    def note_sent(self, task: Task) -> None:
        """Its answer was brought. In one step: the task is among those to do, or among these."""
        name = f"{task.result}.json"
        os.replace(self.root / "tasks" / name, self.root / "sent" / name)

    def sent(self) -> list[Task]:
        return self._noted("sent")

    def forget_sent(self, result: int) -> None:
        (self.root / "sent" / f"{result}.json").unlink(missing_ok=True)
        self.answer_path(result).unlink(missing_ok=True)

    def _noted(self, folder: str) -> list[Task]:
        found = []
        for path in (self.root / folder).glob("*.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Task))
            except (msgspec.DecodeError, OSError):
                path.unlink(missing_ok=True)
        return sorted(found, key=lambda task: task.result)

    def opened_path(self, name: str) -> Path:
        return self.root / "opened" / name

    def sweep(self) -> None:
        """When a node starts. Answers that belong to no task: what was left of them when a process was killed. And data that were opened:
        after a power cut they may be no whole files, and of an index that is not pinned there may be a newer one."""
        shutil.rmtree(self.root / "opened", ignore_errors=True)
        (self.root / "opened").mkdir(exist_ok=True)
        known = {str(task.result) for task in [*self.tasks(), *self.sent()]}
        for name in ("answers", "halfway"):
            for path in (self.root / name).iterdir():
                if path.name not in known:
                    path.unlink(missing_ok=True)

    def answer_path(self, result: int) -> Path:
        return self.root / "answers" / str(result)

    def whole(self, task: Task) -> bool:
        """Is there an answer to the task, with the residual that belongs to it?"""
        if not self.answer_path(task.result).exists():
            return False
        residual = self.residual_path(task.run)
        if not residual.exists():
            return True
        try:
            return int(load(residual.read_bytes())[TAG]) == task.result
        except (SafetensorError, KeyError, OSError):
            return False

    def halfway_path(self, result: int) -> Path:
        return self.root / "halfway" / str(result)

    def residual_path(self, run: str) -> Path:
        return self.root / "residuals" / self.mark(run)

    def offered_path(self, run: str) -> Path:
        return self.root / "residuals" / (self.mark(run) + OFFERED)

    def residuals_of(self, mark: str) -> list[Path]:
        return [path for path in (self.root / "residuals" / mark, self.root / "residuals" / (mark + OFFERED)) if path.exists()]

    def run_of(self, residual: Path) -> str | None:
        """The run whose residual this is, by the descriptions on the disk."""
        mark = residual.name.removesuffix(OFFERED)
        return next((about.run for about in self.abouts().values() if self.mark(about.run) == mark), None)

    # The owner

    def take(self) -> None:
        """L503 if another process is this node already. Held until this process ends, however it ends."""
        self._lock = FileLock(self.root / "lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise LaminarError(
                "L503", f"another process is the node in {self.root} already", hint="end it, or give this one another --home"
            ) from None

    @property
    def gone(self) -> bool:
        """Somebody has deleted it while the node was at work. By its key: what was about to be written may have made the folder again."""
        return not (self.root / "key").exists()

    @property
    def habits_path(self) -> Path:
        return self.root / "habits.json"

    @property
    def paused(self) -> bool:
        return (self.root / "paused").exists()

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def clear(self) -> None:
        """All but who it is and where it belongs."""
        self._versions.clear()
        for name in FOLDERS:
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()
