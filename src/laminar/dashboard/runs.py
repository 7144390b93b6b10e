"""Runs: what is known of each training from its folder alone, quickly: a thousand of them are listed while a person waits.

A run is live while a process holds its lease (the operating system frees that when the process dies, however it dies), finished when its
record says so, and otherwise is what its last event tells: failed, interrupted, or ended without a word.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, Final, Literal, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.dashboard.history import LARGEST, UNREADABLE, History, is_figure, table_of
from laminar.store import locks, records
from laminar.store.runs import ABOUT, FINISHED
from laminar.store.store import Store
from laminar.train.history import EVENTS

State = Literal["live", "finished", "failed", "interrupted", "ended"]
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
END: Final = 1 << 13  # bytes of a file's end in which its last events are looked for
HEAD: Final = 1 << 12
FURTHER: Final = 1 << 20  # and its last test, where that is not among them
Seen = tuple[int, int, int]  # generation, steps, other events


class Run(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    stack: str | None
    layer: str | None
    key: str | None
    id: str | None  # of the layer that came out
    state: State
    why: str  # what ended it
    started: float | None
    last: float | None  # when it was heard of last
    seconds: float | None  # of training
    step: int | None
    steps: int | None
    epoch: int | None
    epochs: int | None
    metrics: dict[str, float]
    strategy: str | None
    bytes: int  # of events


def history_of(store: Store, run: str) -> Path:
    """Where its events are. L006 where there is no such run; a name is never a path."""
    folder = store.layout.runs / run
    if not NAME.fullmatch(run) or not folder.is_dir():
        raise LaminarError("L006", f"there is no run {run[:80]!r}", hint="laminar log")
    return folder / EVENTS


def find_run(store: Store, name: str) -> Run | None:
    """One run, as it stands now; None where there is no such run."""
    folder = store.layout.runs / name
    if not NAME.fullmatch(name) or not folder.is_dir():
        return None
    return read_run(folder, live=name in living_runs(store))


def living_runs(store: Store) -> frozenset[str]:
    try:
        return frozenset(locks.living(store.layout, remove_dead=False).runs)
    except (LaminarError, OSError, msgspec.ValidationError):  # a damaged lease: verify speaks of it
        return frozenset()


@final
class RunList:
    """Remembers what it read of files that have not changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, Run]] = {}
        self._lock = threading.Lock()

    def all(self, store: Store) -> list[Run]:
        """Live ones first, then the newest."""
        with self._lock:  # who asks while another reads them gets what that one read
            return self._all(store)

    def _all(self, store: Store) -> list[Run]:
        living = living_runs(store)
        found: dict[Path, tuple[object, Run]] = {}
        try:
            folders = [path for path in store.layout.runs.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]
        except FileNotFoundError:
            folders = []
        for folder in folders:
            seen = (folder.name in living, _facts(folder / EVENTS), _facts(folder / FINISHED), _facts(folder / ABOUT))
            known = self._known.get(folder)
            found[folder] = known if known is not None and known[0] == seen else (seen, read_run(folder, live=folder.name in living))
        self._known = found
        return sorted((run for _, run in found.values()), key=lambda run: (run.state != "live", -(run.last or 0.0), run.run))


class _Build(msgspec.Struct):
    """What is looked at of a finished run's build record."""

    key: str | None = None
    id: str | None = None
    stack: str | None = None
    name: str | None = None
    spec: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    seconds: float | None = None


class _Finished(msgspec.Struct):
    record: _Build = msgspec.field(default_factory=_Build)


_FINISHED: Final = msgspec.json.Decoder(_Finished)


def read_run(folder: Path, *, live: bool) -> Run:
    about = _about(folder / ABOUT)
    done = _finished(folder / FINISHED)
    record = done.record if done is not None else _Build()
    first, last = _ends(folder / EVENTS, record.metrics != {})
    start = next((e for e in first if e.get("event") in ("start", "resume")), {})
    state, why = _state(done is not None, live, last)
    latest: Event = {}
    for event in last:
        latest |= {name: event[name] for name in ("step", "epoch") if is_figure(event.get(name))}
    tested = next((told for e in reversed(last) if (told := table_of(e, "test"))), {})
    figures = record.metrics or tested or _last_test(folder / EVENTS)
    started = start.get("t") if is_figure(start.get("t")) else None
    ended = max((event["t"] for event in last if is_figure(event.get("t"))), default=None)
    return Run(
        run=folder.name,
        stack=record.stack or _text(about.get("stack")),
        layer=record.name or _text(about.get("layer")),
        key=record.key or _text(about.get("key")),
        id=record.id,
        state=state,
        why=why,
        started=started,
        last=ended,
        seconds=record.seconds or (ended - started if ended is not None and started is not None else None),
        step=_whole(latest.get("step")),
        steps=_whole(start.get("steps")),
        epoch=_whole(latest.get("epoch")),
        epochs=_whole(start.get("epochs")),
        metrics={str(name): value for name, value in figures.items() if is_figure(value)},
        strategy=_text(about.get("strategy")) or _strategy(record.spec),
        bytes=_facts(folder / EVENTS)[1],
    )


def recipe_of(folder: Path) -> tuple[dict[str, Any], str | None]:
    """Of a run: its layer as laminar.toml said it, and the parent's id; as far as it has told."""
    about, done = _about(folder / ABOUT), _finished(folder / FINISHED)
    return (done.record.spec if done is not None else {}) or table_of(about, "spec"), _text(about.get("parent"))


def _state(finished: bool, live: bool, last: list[Event]) -> tuple[State, str]:
    end = last[-1] if last else {}
    why = str(end.get("why", ""))
    if finished:
        told = next((str(e.get("why", "")) for e in reversed(last) if e.get("event") == "end"), "")
        return "finished", told
    if live:
        return "live", ""
    if end.get("event") == "failed":
        return "failed", why or "the training failed"
    if end.get("event") in ("checkpoint", "saved") and why == "interrupted":
        return "interrupted", "interrupted; the next build goes on from its checkpoint"
    if end.get("event") == "end":
        return "ended", "trained to its end, but the layer was not kept; the next build goes on from there"
    return "ended", "ended without a word: it was killed, or the machine stopped"


def news(history: History, seen: Seen | None) -> dict[str, Any] | None:
    """What came since `seen`; None: nothing. Of steps, only the last is told: curves are fetched, by who wants them."""
    now: Seen = (history.generation, history.steps, len(history.others))
    if now == seen:
        return None
    begun = seen is not None and seen[0] != now[0]
    events = history.others[seen[2] :] if seen is not None and not begun else []
    last = {name: float(history.column(name)[-1]) for name in ("step", "epoch", "loss", "t")} if history.steps else None
    return {"seen": now, "begun": begun, "steps": history.steps, "last": last, "events": events[-200:]}


def _about(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, *UNREADABLE):
        return {}


def _finished(path: Path) -> _Finished | None:
    try:
        content = records.read_body(path)
        return None if content is None else _FINISHED.decode(content)
    except (LaminarError, OSError, *UNREADABLE):
        return _Finished()  # damaged, but it was there


def _ends(path: Path, tested: bool) -> tuple[list[Event], list[Event]]:
    """The first events and the last ones: as few as tell where the run stands, out of a few kilobytes.

    `tested`: how good the layer is, is known already, so no epoch is looked for.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
            size = file.seek(0, 2)
            file.seek(max(size - END, 0))
            end = file.read()
    except OSError:
        return [], []
    lines = end[: end.rfind(b"\n") + 1].splitlines()
    last: list[Event] = []
    wanted = {"step", "epoch", "t"} | (set() if tested else {"test"})
    for line in reversed(lines[1:] if size > END else lines):
        event = _event(line)
        if event is not None:
            last.insert(0, event)
            wanted -= event.keys()
            if not wanted:
                break
    first = (_event(line) for line in head[: head.rfind(b"\n") + 1].split(b"\n", 4)[:4])
    return [event for event in first if event is not None], last


def _last_test(path: Path) -> dict[str, Any]:
    """The newest figures of a run that is under way, further back: an epoch may have thousands of steps."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size <= END:
                return {}
            file.seek(max(size - FURTHER, 0))
            text = file.read()
    except OSError:
        return {}
    end = len(text)
    while (at := text.rfind(b'"test":', 0, end)) >= 0:
        begin = text.rfind(b"\n", 0, at) + 1
        stop = text.find(b"\n", at)
        event = _event(text[begin:stop]) if stop >= 0 else None
        if event is not None and event.get("event") == "epoch" and (told := table_of(event, "test")):
            return told
        end = begin
    return {}


def _event(line: bytes) -> Event | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except UNREADABLE:
        return None


def _facts(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_size


def _strategy(spec: dict[str, Any]) -> str | None:
    """As it is written: a name, or a table with one."""
    found = table_of(spec, "train").get("strategy")
    return _text(found.get("kind")) if isinstance(found, dict) else _text(found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return int(value) if is_figure(value) and abs(value) < LARGEST else None
