"""Home: what a node keeps on its disk. Everything in it can be deleted but the key, which is the node.

key                     of the node, for its owner only
server.json             which server, and the key that it had when the node joined
files/<sha256>          graphs and descriptions; versions/<run>/<number> of models
tasks/<result>.json     tasks that are not answered yet
answers/<result>        answers that the server has not used yet
residuals/<run>         what compression has kept back
data/                   caches of the data sets
paused                  is there while the owner wants no work to be done
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final, final

import msgspec
from filelock import FileLock, Timeout

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.grid.wire.messages import About, Task
from laminar.grid.wire.signing import Key

VERSIONS: Final = 4  # of a run, that are kept to make others from


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


@final
class Home:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("files", "versions", "tasks", "answers", "residuals", "data"):
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
            (self.root / "files" / sha256).unlink()
            raise LaminarError("L303", f"{sha256[:12]}… on this node's disk is damaged", hint="it is fetched again")
        return data

    def keep_file(self, sha256: str, data: bytes) -> None:
        if digest.of_bytes(data) != sha256:
            raise LaminarError("L403", f"the server sent something else than {sha256[:12]}…", hint="ask whoever runs the grid")
        atomic.write_bytes(self.root / "files" / sha256, data)

    def version_path(self, run: str, number: int) -> Path:
        return self.root / "versions" / digest.short(digest.of_bytes(run.encode())) / str(number)

    def newest(self, run: str) -> int | None:
        found = [int(path.name) for path in self.version_path(run, 0).parent.glob("[0-9]*") if path.name.isdigit()]
        return max(found, default=None)

    def keep_version(self, run: str, number: int, data: bytes) -> None:
        """Not flushed: what is lost is fetched again, and its digest is checked when it is read."""
        path = self.version_path(run, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
        old = sorted((int(p.name) for p in path.parent.glob("[0-9]*") if p.name.isdigit()), reverse=True)[VERSIONS:]
        for one in old:
            (path.parent / str(one)).unlink(missing_ok=True)

    # Tasks and answers

    def note_task(self, task: Task) -> None:
        """Not flushed: a task that is forgotten is sent again."""
        _write(self.root / "tasks" / f"{task.result}.json", msgspec.json.encode(task))

    def tasks(self) -> list[Task]:
        """Those that were begun before a reboot."""
        found = []
        for path in sorted((self.root / "tasks").glob("*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Task))
            except (msgspec.DecodeError, OSError):
                path.unlink(missing_ok=True)
        return found

    def forget_task(self, result: int) -> None:
        (self.root / "tasks" / f"{result}.json").unlink(missing_ok=True)

    def answer_path(self, result: int) -> Path:
        return self.root / "answers" / str(result)

    def residual_path(self, run: str) -> Path:
        return self.root / "residuals" / digest.short(digest.of_bytes(run.encode()))

    def run_of(self, residual: Path) -> str | None:
        """The run whose residual this is, by the descriptions on the disk."""
        for path in (self.root / "files").iterdir():
            try:
                name = msgspec.json.decode(path.read_bytes(), type=About).run
            except (msgspec.DecodeError, OSError, UnicodeDecodeError):
                continue
            if self.residual_path(name) == residual:
                return name
        return None

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
    def paused(self) -> bool:
        return (self.root / "paused").exists()

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def clear(self) -> None:
        """All but who it is and where it belongs."""
        for name in ("files", "versions", "tasks", "answers", "residuals", "data"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and not flushed."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(data)
    os.replace(part, path)
