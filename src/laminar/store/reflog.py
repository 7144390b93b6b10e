"""Ref logs: pure replay of what happened to a ref.

A log is a list of entries, oldest first. Replaying it gives a history (ids, oldest first) and a cursor into it, as an editor's undo does:
a rollback moves the cursor back, a redo forward, anything else cuts off what lies ahead of the cursor and adds its id. What was cut off
stays in the log, so a rollback to its id still finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from laminar.store import records

MOVES: Final = frozenset({"build", "pull", "set", "import"})
OPS: Final = MOVES | {"rollback", "redo"}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log. `n` counts from 1; `was` is the id before."""

    n: int
    op: str
    id: str
    was: str | None
    time: float
    why: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ref stands: `history[cursor]` is its id."""

    history: tuple[str, ...] = ()
    cursor: int = -1

    @property
    def id(self) -> str | None:
        return self.history[self.cursor] if self.history else None


def step(state: State, entry: Entry) -> State:
    """The state after an entry. An entry that fits no rule (a damaged log) is taken as a plain move, so that replay always ends."""
    if entry.op == "redo" and state.cursor + 1 < len(state.history) and state.history[state.cursor + 1] == entry.id:
        return State(history=state.history, cursor=state.cursor + 1)
    if entry.op == "rollback":
        for cursor in range(state.cursor - 1, -1, -1):
            if state.history[cursor] == entry.id:
                return State(history=state.history, cursor=cursor)
        for cursor in range(state.cursor + 1, len(state.history)):  # "back" to an id that lies ahead
            if state.history[cursor] == entry.id:
                return State(history=state.history, cursor=cursor)
    if entry.id == state.id:
        return state
    history = (*state.history[: state.cursor + 1], entry.id)
    return State(history=history, cursor=len(history) - 1)


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
