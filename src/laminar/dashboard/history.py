"""Histories: the events of runs as columns, read on as their files grow.

A file may be read while it is written: a last line without its end is left for the next look. A damaged line is counted and passed over.
A file that became shorter, or is another one, or whose last line is no longer what it was (a resumed run cuts off what came after its
checkpoint) is read from its beginning, as a new `generation`.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from laminar.core.events import Event

T = TypeVar("T")
CHUNK: Final = 1 << 22
WITNESS: Final = 256  # bytes before the place read up to: proof that the file is still the one that was read
ROWS_KEPT: Final = 4_000_000  # of all histories in memory together
OTHERS_KEPT: Final = 50_000  # events that are no steps, a run
LARGEST: Final = 1 << 63  # whole numbers from here on are damage
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what msgspec says of bytes that are no JSON
FIELDS: Final = ("t", "step", "epoch", "loss", "lr", "staleness", "worker")


class Step(msgspec.Struct, gc=False):
    """What is looked at of a line that tells of a step; of other lines, `event` only."""

    event: str
    t: float = math.nan
    step: float = math.nan
    epoch: float = math.nan
    loss: float | None = None
    lr: float | None = None
    staleness: float | None = None
    worker: str | float | None = None


_STEPS: Final = msgspec.json.Decoder(list[Step])
_LINE: Final = msgspec.json.Decoder(Step)


@final
class History:
    """One events.jsonl. Not for two threads at once: `Histories` sees to that."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self._forget()

    def _forget(self) -> None:
        self.generation += 1
        self.steps = 0
        self.damaged = 0
        self.others: list[Event] = []  # all but steps
        self.last: float | None = None  # the time of the newest event
        self._columns = {name: np.empty(1024) for name in FIELDS}
        self._at = 0
        self._inode = 0
        self._witness = b""

    def column(self, name: str) -> NDArray[np.float64]:
        """Of every step."""
        return self._columns[name][: self.steps]

    def refresh(self) -> bool:
        """Read what is new; was anything? A file that is gone is empty."""
        before = (self.generation, self.steps, len(self.others))
        try:
            with open(self.path, "rb") as file:
                facts = os.fstat(file.fileno())
                if not self._same(file, facts):
                    self._forget()
                    self._inode = facts.st_ino
                file.seek(self._at)
                rest = b""
                while part := file.read(CHUNK):
                    data = rest + part
                    whole = data.rfind(b"\n") + 1
                    if whole:
                        self._take(data[:whole])
                    rest = data[whole:]
        except FileNotFoundError:
            if self._at:
                self._forget()
        return before != (self.generation, self.steps, len(self.others))

    def _same(self, file: Any, facts: os.stat_result) -> bool:
        if self._at == 0:
            self._inode = facts.st_ino
            return True
        if facts.st_ino != self._inode or facts.st_size < self._at:
            return False
        file.seek(self._at - len(self._witness))
        return bool(file.read(len(self._witness)) == self._witness)

    def _take(self, data: bytes) -> None:
        """Whole lines."""
        self._at += len(data)
        self._witness = (self._witness + data)[-WITNESS:]
        try:
            rows = _STEPS.decode(b"[" + data[:-1].replace(b"\n", b",") + b"]")
            places = [at for at, row in enumerate(rows) if row.event != "step"]
            lines = data.split(b"\n") if places else []
            others = [msgspec.json.decode(lines[at]) for at in places]
            whole = len(rows) == data.count(b"\n")  # else two halves became one, or a line has two
        except (IndexError, *UNREADABLE):  # one is damaged or empty, or has a figure that JSON does not know
            whole = False
        if not whole:
            self._one_by_one(data.split(b"\n"))
            return
        for event in others:
            self._keep(event)
        self._add([row for row in rows if row.event == "step"] if others else rows)

    def _one_by_one(self, lines: list[bytes]) -> None:
        steps: list[Step] = []
        for line in lines:
            if not line.strip():
                continue
            try:
                row = _LINE.decode(line)
                if row.event == "step":
                    steps.append(row)
                    continue
            except UNREADABLE:
                pass
            try:
                event = json.loads(line)  # knows NaN and Infinity
            except (ValueError, RecursionError):
                self.damaged += 1
                continue
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                self.damaged += 1
            elif event["event"] == "step":
                steps.append(Step("step", **{name: figure(event.get(name)) for name in FIELDS[:-1]}, worker=_named(event.get("worker"))))
            else:
                self._keep(event)
        self._add(steps)

    def _keep(self, event: Event) -> None:
        try:
            msgspec.json.encode(event)
        except UnicodeEncodeError:  # half a character: nobody could be told of it
            self.damaged += 1
            return
        if is_figure(t := event.get("t", math.nan)):
            self.last = float(t) if self.last is None else max(float(t), self.last)
        if len(self.others) < OTHERS_KEPT:
            self.others.append(event)

    def _add(self, rows: list[Step]) -> None:
        if not rows:
            return
        end = self.steps + len(rows)
        for name in FIELDS:
            column = self._columns[name]
            if end > column.size:
                column = self._columns[name] = np.resize(column, max(end, 2 * column.size))
            column[self.steps : end] = _floats(list(map(attrgetter(name), rows)))
        newest = np.nanmax(self._columns["t"][self.steps : end], initial=-math.inf)
        if math.isfinite(newest):
            self.last = max(float(newest), self.last or -math.inf)
        self.steps = end


def _floats(values: list[Any]) -> NDArray[np.float64]:
    """None is not a number; a worker is named by one."""
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        return np.array([_number(value) for value in values])


def _number(value: str | float | None) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def _named(value: Any) -> str | float | None:
    return value if isinstance(value, str) else figure(value)


def is_figure(value: Any) -> bool:
    """A number that can be drawn, and told in JSON."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, float) and math.isfinite(value)


def figure(value: Any) -> float:
    return float(value) if is_figure(value) else math.nan


def table_of(event: Event, name: str) -> dict[str, Any]:
    """A table within an event; empty where there is none, or something else."""
    found = event.get(name)
    return found if isinstance(found, dict) else {}


@final
class Histories:
    """Of the runs that were asked for lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, tuple[threading.Lock, History]] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, path: Path, use: Callable[[History], T]) -> T:
        """`use(history)`, which is as new as its file, while nobody else looks at it."""
        with self._lock:
            own, history = self._known.setdefault(path, (threading.Lock(), History(path)))
            self._known.move_to_end(path)
            rows = 0
            for known in reversed(list(self._known)):
                rows += self._known[known][1].steps
                if rows > ROWS_KEPT and known != path:
                    del self._known[known]
        with own:
            history.refresh()
            return use(history)
