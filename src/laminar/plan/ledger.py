"""The ledger: what was predicted and what was measured then, in an SQLite file of the user. Predictions learn from it. No torch here.

Several processes may write at once (WAL). A damaged file is set aside: what it held can be measured again.
What is in it can be looked at by ledger_check.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar, final

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.data.sources.places import cache_folder
from laminar.plan.correction import Correction, correction
from laminar.plan.ledger_check import Check, check

VARIABLE: Final = "LAMINAR_LEDGER"
TABLE: Final = "entries_4"  # another number where an entry has another form; the old ones stay beside it
PATIENCE: Final = 30.0  # seconds that another process may be writing
MEMORY: Final = Path(":memory:")  # as SQLite calls a database without a file
NEWEST: Final = 20  # entries of a kind that a correction is made of, at most

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    when: float  # seconds since 1970
    machine: str  # a name or digest of it
    torch: str  # version
    layer: str
    model: str  # digest
    strategy: str  # JSON, as in a stack file
    kind: str
    workers: int
    batch: int
    raw_seconds: float  # of a step, predicted without corrections
    predicted_seconds: float  # and with them
    measured_seconds: float
    beat: float = 1.0  # batches that are behind the team from one meeting of its workers to the next
    calibration: bool = False  # run in order to be corrected by it; so it says nothing about how good predictions are
    quiet: bool = True  # nobody else was busy meanwhile
    code: str = ""  # of Laminar, by which it was predicted and run (our_code.py)


_COLUMNS: Final = [field.name for field in dataclasses.fields(Entry)]
_TYPES: Final = {"str": "TEXT", "int": "INTEGER", "float": "REAL", "bool": "INTEGER"}


def default_path() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return cache_folder() / "ledger.sqlite"


@final
class Ledger:
    """`notes` say what went wrong with the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, list[str]()
        self._db = self._opened()

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        """The user's own file, if none is named. L302 where it cannot be written."""
        return cls(default_path() if path is None else path)

    @classmethod
    def at_hand(cls, path: Path | None = None) -> Self:
        """For whoever only learns from it: where the file cannot be used, one of which nothing is kept, with a note that says so."""
        try:
            return cls.open(path)
        except LaminarError as error:
            made = cls(MEMORY)
            made.notes.append(f"{error.message}; no prediction is corrected by it, and what is measured now is not kept there")
            return made

    def add(self, entry: Entry) -> None:
        if not (entry.raw_seconds > 0 and entry.measured_seconds > 0):
            raise ValueError(f"{entry.raw_seconds} s predicted and {entry.measured_seconds} s measured, but a step takes some time")
        places = ", ".join("?" * len(_COLUMNS))
        values = dataclasses.astuple(entry)

        def insert() -> None:
            with self._db:
                self._db.execute(f"INSERT INTO {TABLE} ({_names()}) VALUES ({places})", values)

        self._mended(insert)

    def note(self, entry: Entry) -> None:
        """As `add`, for whoever has something that is worth more than an entry: where the file cannot be used, `notes` say so, once."""
        try:
            self.add(entry)
        except LaminarError as error:
            if (why := f"{error.message}; what was measured now is not kept there") not in self.notes:
                self.notes.append(why)

    def all(self) -> list[Entry]:
        """In the order in which they were written."""

        def select() -> list[Entry]:
            return [_entry(row) for row in self._db.execute(f"SELECT {_names()} FROM {TABLE} ORDER BY rowid")]

        return self._mended(select)

    def corrections(self, machine: str, torch: str, code: str = "", *, also_busy: bool = False) -> dict[tuple[str, int], Correction]:
        """By kind of strategy and number of workers, what makes of a prediction what is measured on this machine.

        Runs of other code correct nothing: neither they nor what was predicted of them is what it was. What was measured while others were
        busy corrects nothing, either, unless that will do (`also_busy`) and there is nothing better.
        """
        found = [one for one in self.all() if (one.machine, one.torch, one.code) == (machine, torch, code)]
        calm = corrections([one for one in found if one.quiet])
        return corrections(found) | calm if also_busy else calm

    def trials(self, like: Entry) -> dict[str, list[float]]:
        """What the very same job took before on this machine, in order: measured seconds, by strategy. Only where nobody else was busy."""

        def job(one: Entry) -> tuple[Any, ...]:
            return one.machine, one.torch, one.code, one.model, one.batch

        found: dict[str, list[float]] = {}
        for one in self.all():
            if one.quiet and job(one) == job(like):
                found.setdefault(one.strategy, []).append(one.measured_seconds)
        return found

    def check(self) -> Check:
        return check(self.all())

    def close(self) -> None:
        self._db.close()

    # The file

    def _opened(self) -> sqlite3.Connection:
        try:
            with explaining_os_errors(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # a place where no folder can be
            raise self._refused(error) from error
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._refused(error) from error
            self._set_aside(error)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=PATIENCE)
        try:
            columns = ", ".join(f'"{field.name}" {_TYPES[str(field.type)]} NOT NULL' for field in dataclasses.fields(Entry))
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            with db:
                db.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
        except BaseException:
            db.close()
            raise
        return db

    def _mended(self, work: Callable[[], T]) -> T:
        """Damage may be found only where it is read."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._refused(error) from error
            self._db.close()
            self._set_aside(error)
            self._db = self._connect()
            return work()

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        with explaining_os_errors(self.path):
            self.path.rename(aside)
            for rest in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + rest).unlink()
        self.notes.append(f"the ledger {self.path} was damaged ({error}); it is now {aside.name}, and a new one was begun")

    def _refused(self, error: Exception) -> LaminarError:
        return LaminarError("L302", f"the ledger {self.path} cannot be used: {error}", hint=f"set {VARIABLE} to a file that you may write")


def corrections(entries: Sequence[Entry]) -> dict[tuple[str, int], Correction]:
    """Of entries in the order in which they were written, all of one machine and one version of torch."""
    pairs: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for one in entries:
        pairs.setdefault((one.kind, one.workers), []).append((one.beat * one.raw_seconds, one.beat * one.measured_seconds))
    found = {what: correction(some[-NEWEST:]) for what, some in pairs.items()}
    return {what: one for what, one in found.items() if one is not None}


def _names() -> str:
    return ", ".join(f'"{name}"' for name in _COLUMNS)


def _entry(row: Sequence[Any]) -> Entry:
    found = dict(zip(_COLUMNS, row, strict=True))
    return Entry(**{**found, "calibration": bool(found["calibration"]), "quiet": bool(found["quiet"])})


def look(path: Path | None = None) -> list[Entry]:
    """All entries, without making, mending or writing anything; none where there is no ledger. L303 where it is damaged."""
    file = default_path() if path is None else path
    if not file.is_file():
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone():
                return []
            return [_entry(row) for row in db.execute(f"SELECT {_names()} FROM {TABLE} ORDER BY rowid")]
    except sqlite3.DatabaseError as error:
        raise LaminarError(
            "L303", f"the ledger {file} cannot be read: {error}", hint="laminar plan check sets it aside and begins anew"
        ) from error
