"""Events: one JSON object a line, appended. The history of a run is such a file."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, final

Event = dict[str, Any]
Emit = Callable[[Event], None]


def nowhere(event: Event) -> None:
    """An Emit that drops everything."""


PENDING = 256  # events


@final
class EventLog:
    """Appends events to a file; buffered, so call flush() at moments that must survive a kill.

    Many events are made into text at once: one in each step of a training finds nothing of that in the processor's cache, and takes several
    times as long.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = open(path, "ab", buffering=1 << 16)  # noqa: SIM115 - closed by close()
        self._encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
        self._pending: list[Event] = []
        self._turn = threading.RLock()

    def __call__(self, event: Event) -> None:
        with self._turn:
            self._pending.append(event)
            if len(self._pending) >= PENDING:
                self._write()

    def _write(self) -> None:
        with self._turn:
            pending, self._pending = self._pending, []
            self._file.write("".join([self._encode(event) + "\n" for event in pending]).encode())

    def end_line(self) -> None:
        """What a killed writer has left half-written becomes a line of its own, which readers pass over."""
        size = self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(max(0, size - 1))
            if file.read(1) not in (b"", b"\n"):
                self._file.write(b"\n")

    def show(self) -> None:
        """Let others read what was told so far."""
        self._write()
        self._file.flush()

    def flush(self) -> int:
        """Put everything on disk; the size of the file after it."""
        self.show()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def truncate(self, size: int) -> None:
        """Forget what came after `size` bytes: the events of steps that a resumed run will repeat."""
        self.show()
        self._file.truncate(size)
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        try:
            self._write()
        finally:
            self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def read(path: Path) -> Iterator[Event]:
    """Every whole line of an event file; a half-written last line (a killed writer) is left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(event, dict):
                yield event
