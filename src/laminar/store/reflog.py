"""Ref logs: pure replay of what happened to a ref.

A log is a list of entries, oldest first. Replaying it gives a history (ids, oldest first) and a cursor into it: a rollback moves the
cursor back, anything else cuts off what lies ahead of the cursor and adds its id. What was cut off stays in the log, so a rollback to its
id still finds it. Beside them goes a stack of the rollbacks that nobody undid: a redo takes the last one back, wherever it came from, and
a build, pull, import or set empties it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from laminar.store import records

MOVES: Final = frozenset({"build", "pull", "set", "import"})
OPS: Final = MOVES | {"rollback", "redo"}


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a log. `n` counts from 1; `was` is the id before.

    `cursor` is where a rollback or redo went: an id may stand in a history twice. Lines of old logs do not have it.
    """

    n: int
    op: str
    id: str
    was: str | None
    time: float
    why: str
    cursor: int | None = None


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback that can be undone: its number and time in the log, and what it came from."""

    n: int
    time: float
    history: tuple[str, ...]
    cursor: int

    @property
    def id(self) -> str:
        return self.history[self.cursor]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ref stands: `history[cursor]` is its id. `undo`: what redo takes back, newest last."""

    history: tuple[str, ...] = ()
    cursor: int = -1
    undo: tuple[Undo, ...] = ()

    @property
    def id(self) -> str | None:
        return self.history[self.cursor] if self.history else None


def find(state: State, id: str) -> int | None:
    """Where an id stands in the history: the nearest place before the cursor, else the nearest ahead of it."""
    order = (*range(state.cursor - 1, -1, -1), *range(state.cursor + 1, len(state.history)))
    return next((cursor for cursor in order if state.history[cursor] == id), None)


def step(state: State, entry: Entry) -> State:
    """The state after an entry. An entry that fits no rule (a damaged log) is taken as a plain move, so that replay always ends."""
    if entry.op == "redo" and (after := _redo(state, entry)) is not None:
        return after
    if entry.op == "rollback" and state.history:
        undo = (*state.undo, Undo(n=entry.n, time=entry.time, history=state.history, cursor=state.cursor))
        cursor = entry.cursor if _fits(state, entry) else find(state, entry.id)
        if cursor is not None:
            return State(history=state.history, cursor=cursor, undo=undo)
        history = (*state.history[: state.cursor + 1], entry.id)  # to an id that an earlier build cut off
        return State(history=history, cursor=len(history) - 1, undo=undo)
    if entry.id == state.id:
        return state
    history = (*state.history[: state.cursor + 1], entry.id)
    return State(history=history, cursor=len(history) - 1)


def _redo(state: State, entry: Entry) -> State | None:
    last = state.undo[-1] if state.undo else None
    if entry.cursor is None:  # an old log, where a redo went one forward
        forward = state.cursor + 1
        if forward >= len(state.history) or state.history[forward] != entry.id:
            return None
        undone = last is not None and (last.history, last.cursor) == (state.history, forward)
        return State(history=state.history, cursor=forward, undo=state.undo[:-1] if undone else state.undo)
    if last is not None and last.id == entry.id:
        return State(history=last.history, cursor=last.cursor, undo=state.undo[:-1])
    return State(history=state.history, cursor=entry.cursor, undo=state.undo) if _fits(state, entry) else None


def _fits(state: State, entry: Entry) -> bool:
    return entry.cursor is not None and 0 <= entry.cursor < len(state.history) and state.history[entry.cursor] == entry.id


def replay(entries: Iterable[Entry]) -> State:
    state = State()
    for entry in entries:
        state = step(state, entry)
    return state


def line(entry: Entry) -> bytes:
    return records.dump(msgspec.to_builtins(entry)) + b"\n"


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A log as found: whole entries, the numbers of lines that are damaged, and how many bytes are whole lines."""

    entries: list[Entry]
    bad: list[int]
    whole: int


def parse(data: bytes) -> Read:
    """A last line without its end (a killed writer) is left out and is not damage."""
    whole = data.rfind(b"\n") + 1
    entries: list[Entry] = []
    bad: list[int] = []
    for number, text in enumerate(data[:whole].split(b"\n")[:-1], 1):
        try:
            entry = msgspec.json.decode(records.body(text), type=Entry)
        except (records.BadRecord, msgspec.DecodeError):
            bad.append(number)
            continue
        if entry.n != len(entries) + len(bad) + 1:
            bad.append(number)
        else:
            entries.append(entry)
    return Read(entries=entries, bad=bad, whole=whole)


def summary(name: str, state: State, size: int) -> dict[str, Any]:
    """What the ref's own file says: a cache of the log's first `size` bytes."""
    return {"name": name, "id": state.id, "history": list(state.history), "cursor": state.cursor, "log": size}
