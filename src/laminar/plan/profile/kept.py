"""Kept: what was measured, in an SQLite file, so that it is measured once. No torch here.

A measurement is found by everything that it depends on (what, shapes, dtypes, attributes, threads, the version of torch, the machine), as
canonical JSON: of another version or with another number of threads there is none. Several processes may use the file at once (WAL), and
one that is killed leaves whole measurements or none. The file holds nothing that cannot be measured again, so a damaged one is set aside.

What was measured beside others who were busy is marked: it is of use to whoever asked for that, and to nobody else.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

from filelock import FileLock

from laminar.core import digest
from laminar.data.sources.places import cache_folder

VARIABLE: Final = "LAMINAR_PROFILE"
TABLE: Final = "measured_1"  # another number where what is kept has another form
PATIENCE: Final = 30.0  # seconds that another process may be writing
MEMORY: Final = ":memory:"

Key = Mapping[str, Any]


def default_path() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return cache_folder() / "profile.sqlite"


@final
class Kept:
    """`misses` counts what was not there and had to be measured, `disturbed` what was handed out or came in while others were busy; `notes`
    say what went wrong with the file."""

    def __init__(self, path: Path | None) -> None:
        """None: nothing outlives this object."""
        self.path, self.notes = path, list[str]()
        self.misses = self.disturbed = 0
        self._since = 0.0  # what was measured before that is not handed out
        self._db = self._opened()

    @classmethod
    def open(cls, path: Path | None = None) -> Kept:
        """The user's own file, if none is named."""
        return cls(default_path() if path is None else path)

    def get(self, key: Key, *, also_busy: bool = False) -> Any | None:
        """None: it was not measured, or cannot be read. `also_busy`: what was measured on a busy machine will do."""
        found = self._ask(f"SELECT value, quiet FROM {TABLE} WHERE key = ? AND at >= ?", (_text(key), self._since))
        if not found or not (found[0][1] or also_busy):
            return None
        self.disturbed += not found[0][1]
        try:
            return json.loads(found[0][0])
        except ValueError:  # somebody else wrote that
            return None

    def put(self, key: Key, value: Any, *, quiet: bool = True) -> None:
        """`value`: whatever JSON can say. One of a quiet machine is never replaced by one of a busy one."""
        self.put_all([(key, value)], quiet=quiet)

    def put_all(self, some: list[tuple[Key, Any]], *, quiet: bool = True) -> None:
        """All of them, or none."""
        if not some:
            return
        self.disturbed += 0 if quiet else len(some)
        rows = [(_text(key), json.dumps(value, allow_nan=False), int(quiet), time.time()) for key, value in some]
        self._ask(
            f"INSERT INTO {TABLE} (key, value, quiet, at) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
            "SET value = excluded.value, quiet = excluded.quiet, at = excluded.at WHERE excluded.quiet >= quiet",
            *rows,
        )

    def measured(self, key: Key, function: Callable[[], Any]) -> Any:
        """What is kept, or what `function` gives, which is kept then."""
        if (found := self.get(key)) is None:
            self.misses += 1
            found = function()
            self.put(key, found)
        return found

    def start_anew(self) -> None:
        """Everything is measured again. What there is stays until it is replaced: measuring may be refused, or broken off."""
        self._since = time.time()

    def __len__(self) -> int:
        return int(self._ask(f"SELECT count(*) FROM {TABLE}")[0][0])

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # The file

    def _opened(self) -> sqlite3.Connection:
        if self.path is None:
            return _connected(MEMORY)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return self._whole_or_new(self.path)
        except (OSError, sqlite3.OperationalError) as error:  # a folder that cannot be written to, a full disk
            self.notes.append(f"{self.path} cannot be used ({error}): what is measured now will be measured again next time")
            self.path = None
            return _connected(MEMORY)

    def _whole_or_new(self, path: Path) -> sqlite3.Connection:
        try:
            return _connected(path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            pass
        with FileLock(f"{path}.lock", timeout=PATIENCE):  # whoever comes second finds a new file
            try:
                return _connected(path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
                os.replace(path, aside)
                for more in ("-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{path}{more}")
                self.notes.append(f"{path} was damaged ({error}); it is {aside.name} now, and everything is measured anew")
                return _connected(path)

    def _ask(self, what: str, *rows: tuple[Any, ...]) -> list[Any]:
        """Once more with a new file, if this one turns out to be damaged."""
        try:
            return self._do(what, rows)
        except sqlite3.OperationalError as error:
            self.notes.append(f"{self.path} cannot be used ({error}): what is measured now will be measured again next time")
            self._db.close()
            self.path, self._db = None, _connected(MEMORY)
        except sqlite3.DatabaseError:
            self._db.close()
            self._db = self._opened()
        return self._do(what, rows)

    def _do(self, what: str, rows: tuple[tuple[Any, ...], ...]) -> list[Any]:
        if len(rows) <= 1:
            return self._db.execute(what, *rows).fetchall()
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(what, rows)
        return []


def _connected(path: Path | str) -> sqlite3.Connection:
    """DatabaseError (and no OperationalError) where the file is damaged."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # the newest measurements may be lost with the power, and the file stays whole
        if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, value TEXT NOT NULL, quiet INTEGER NOT NULL, at REAL NOT NULL)"
        )
    except BaseException:
        db.close()
        raise
    return db


def _text(key: Key) -> str:
    return digest.canonical(key).decode()
