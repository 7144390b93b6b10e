"""History: what happened in a run, one JSON object a line in `events.jsonl`.

    start       step, steps, epoch, epochs, samples, threads, dtype
    resume      step, steps, epoch, epochs, why
    step        step, epoch, loss, lr                 every step; steps and epochs count from 0
    epoch       epoch, epochs, step, train {loss, …}, test {loss, …}, seconds, samples_per_second, change (changes.py; null: not
                known), test_seconds (but where others tested); of a team: workers, bytes, dense_bytes, shares (measured ones), resting,
                busy; by: evaluator, where one tested
    checkpoint  step, epoch, why                      step: how many are behind it; told before it is written
    saved       step, why, seconds, bytes             it was: how long training stood still for it, and the size of its file
    worker      role, rank, pid, host                 a process that takes part, where there are several
    waiting     why, help                             of a grid: what it waits for, and a command; a note says when that is over
    note        why
    failed      step, epoch, lr, why
    end         step, epoch, why, metrics, seconds

Every event has `t`, seconds since 1970. A resumed run forgets the events after its checkpoint, so no step is told twice; what that
checkpoint has cost is told right after it, and not forgotten.
Listeners (`emit`) get the same, with the layer's name, but of the steps only some each second; those
of a team with `team`: workers, steps_per_second, samples_per_second, bytes (so far), staleness, shares (measured ones).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

import msgspec

from laminar.core.clock import SYSTEM, Clock
from laminar.core.events import Emit, EventLog, read
from laminar.train.tensorboard import Board, Point

EVENTS = "events.jsonl"
END: Final = "end"  # why a checkpoint was written: training is over, and what it takes is no part of it
LISTEN_SECONDS = 0.2


@final
class History:
    def __init__(self, folder: Path, name: str, emit: Emit, clock: Clock, *, tensorboard: bool, rewind: tuple[int, int] | None) -> None:
        """`rewind`: (bytes of events, steps) to keep of an earlier attempt; None forgets it."""
        self.name = name
        self.board = Board(folder / "tensorboard", clock, wanted=tensorboard, purge=rewind[1] + 1 if rewind else None)
        self._emit = emit
        self._now = clock.now
        self._log = EventLog(folder / EVENTS)
        self._log.truncate(_end_of_saved(self._log.path, *rewind) if rewind else 0)
        self._points: list[Point] = []

    def step(self, step: int, epoch: int, loss: float, lr: float, **more: Any) -> None:
        self._points.append((step, loss, lr))
        self._log({"event": "step", "step": step, "epoch": epoch, "loss": loss, "lr": lr, **more, "t": self._now()})

    def listen(self, **fields: Any) -> None:
        """A step, to listeners only; whoever reads the file can see it, and those before it, from now on."""
        self._log.show()
        self._emit({"event": "step", "layer": self.name, **fields, "t": self._now()})

    def tell(self, event: str, **fields: Any) -> None:
        """To the file, where it can be read at once, and to listeners."""
        record = {"event": event, **fields, "t": self._now()}
        self._log(record)
        self._log.show()
        self._emit({"layer": self.name, **record})

    def say(self, saved: Saved) -> None:
        self.tell(**msgspec.to_builtins(saved))

    def recall(self, notes: Iterable[str]) -> None:
        """Of earlier attempts: listeners have heard them, and the file may have lost them with the events after the checkpoint."""
        add_notes(self._log, notes, self._now())

    def epoch(self, *, step: int, train: dict[str, float], test: dict[str, float], **fields: Any) -> None:
        self.tell("epoch", step=step, train=train, test=test, **fields)
        curves = {f"train/{name}": value for name, value in train.items()} | {f"test/{name}": value for name, value in test.items()}
        self.board.epoch(self._points, step, curves)
        self._points.clear()

    def flush(self) -> int:
        """Everything told so far is on disk; the size of the file."""
        return self._log.flush()

    def __enter__(self) -> History:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.board.close()
        self._log.close()


@final
class Untold:
    """The history of a member of a team that writes none: member 0 tells what happens."""

    board = Board(Path(), SYSTEM, wanted=False, purge=None)

    def step(self, step: int, epoch: int, loss: float, lr: float) -> None: ...

    def listen(self, **fields: Any) -> None: ...

    def tell(self, event: str, **fields: Any) -> None: ...

    def say(self, saved: Saved) -> None: ...

    def recall(self, notes: Iterable[str]) -> None: ...

    def epoch(self, **fields: Any) -> None: ...

    def flush(self) -> int:
        return 0

    def __enter__(self) -> Untold:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None: ...


class Saved(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="saved"):
    """A checkpoint is on disk."""

    step: int
    why: str
    seconds: float  # for which training stood still
    bytes: int  # of its file


def _end_of_saved(path: Path, size: int, step: int) -> int:
    """Where the word ends that the checkpoint of this step was written, if it follows; else where the events end that it knows."""
    with open(path, "rb") as file:
        file.seek(size)
        line = file.readline()
    try:
        follows = line.endswith(b"\n") and msgspec.json.decode(line, type=Saved).step == step
    except msgspec.MsgspecError:
        follows = False
    return size + len(line) if follows else size


def notes_in(path: Path) -> list[str]:
    return [str(event.get("why", "")) for event in read(path) if event.get("event") == "note"] if path.exists() else []


def add_notes(log: EventLog, notes: Iterable[str], now: float) -> None:
    """Those that are not in it yet."""
    log.show()
    known = set(notes_in(log.path))
    for why in notes:
        if why not in known:
            log({"event": "note", "why": why, "t": now})
    log.show()
