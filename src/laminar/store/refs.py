"""Refs: names that point at layers, each with an append-only log; and tags.

A move is one line added to the log, synced, and then the ref's own file, which is a cache of the log: a writer killed before the line is
whole has done nothing, one killed after it has done everything. A ref file that is missing, damaged or behind is read from the log.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import final

from laminar.core import atomic
from laminar.core.clock import Clock
from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.core.places import BINARY, write_at
from laminar.store import records, reflog
from laminar.store.layout import TAGS, Layout, unquoted
from laminar.store.names import LONGEST, is_ref, is_tag
from laminar.store.reflog import Entry, State, Undo

Locked = Callable[[str], AbstractContextManager[None]]
Guard = Callable[[], AbstractContextManager[None]]
First = Callable[[State, Entry], None]
"""What has to be done before a ref moves, under its lock: it gets the state and the entry to come; when it raises, nothing moves."""
Chosen = tuple[str, str, int | None]  # op, id, cursor


@final
class Refs:
    def __init__(self, layout: Layout, lock: Locked, clock: Clock, *, guard: Guard = nullcontext, known: Callable[[str], bool]) -> None:
        self._layout = layout
        self._lock = lock
        self._clock = clock
        self._guard = guard  # the lock that gc holds while it deletes: a ref must not be set to what is being deleted
        self._exists = known  # is there a layer of this id?

    # refs of layers: `stack/layer`

    def get(self, name: str) -> str | None:
        return self._state(self._layout.ref(name)).id

    def names(self) -> list[str]:
        return sorted({f"{unquoted(path.parent.name)}/{unquoted(path.stem)}" for path in self.files() if path.parent.name != TAGS})

    def state(self, name: str) -> State:
        """History and cursor."""
        return self._state(self._layout.ref(name))

    def redoable(self, name: str) -> tuple[Undo, ...]:
        """The rollbacks since the last build or pull that were not undone, newest last. L303 when the log is damaged."""
        log = log_of(self._layout.ref(name))
        read = reflog.parse(_bytes(log))
        if read.bad:
            raise self._damaged(self._layout.ref(name), read.bad[0])
        return reflog.replay(read.entries).undo

    def log(self, name: str) -> list[Entry]:
        """Everything that ever happened to the ref, oldest first."""
        return reflog.parse(_bytes(log_of(self._layout.ref(name)))).entries

    def at(self, name: str, steps: int) -> str:
        """The id `steps` before the present one; L010 when the history is shorter."""
        state = self._state(self._known(name))
        if steps > state.cursor:
            raise LaminarError(
                "L010", f"{name} has {state.cursor} earlier layer(s), but {steps} steps back were asked for", hint=f"laminar log {name}"
            )
        id = state.history[state.cursor - steps]
        if not self._exists(id):
            raise self._gone(name, state, id)
        return id

    def move(self, name: str, id: str, why: str, *, op: str = "build") -> None:
        """Point the ref at a layer. Nothing happens, and nothing is logged, when it is there already."""
        if not is_ref(name):
            raise LaminarError(
                "L008", f"{name[:80]!r} is no name for a ref: expected stack/layer, {LONGEST} characters each at most", hint="laminar log"
            )
        self._append(self._layout.ref(name), name, lambda state: None if state.id == id else (op, id, None), why)

    def back(self, name: str, steps: int = 1, *, why: str = "rollback", first: First | None = None) -> str:
        """Go back; the id it now points at."""
        path = self._known(name)

        def choose(state: State) -> Chosen:
            if steps < 1:
                raise LaminarError("L008", f"cannot go back {steps} steps: expected 1 or more", hint=f"laminar rollback {name}")
            if steps > state.cursor:
                raise LaminarError(
                    "L010", f"{name} has {max(state.cursor, 0)} earlier layer(s): cannot go back {steps}", hint=f"laminar log {name}"
                )
            id = state.history[state.cursor - steps]
            if not self._exists(id):
                raise self._gone(name, state, id)
            return "rollback", id, state.cursor - steps

        return self._append(path, name, choose, why, first)

    def to(self, name: str, id: str, *, why: str = "rollback", first: First | None = None, again: bool = False) -> str:
        """Go back (or forward) to an id. Where it is there already nothing is logged, but for `again`, so that redo can undo `first`."""
        path = self._known(name)

        def choose(state: State) -> Chosen | None:
            if state.id == id:
                return ("rollback", id, state.cursor) if again else None
            if not self._exists(id):
                raise self._gone(name, state, id)
            return "rollback", id, reflog.find(state, id)

        return self._append(path, name, choose, why, first)

    def redo(self, name: str, *, why: str = "redo", first: First | None = None) -> str:
        """Undo the last rollback that was not undone: the ref is where it was before it."""
        path = self._known(name)
        self.redoable(name)  # a damaged log is said as such

        def choose(state: State) -> Chosen:
            if not state.undo:
                raise LaminarError(
                    "L010",
                    f"{name} was not rolled back since it became {short(state.id or '')}: nothing to redo",
                    hint=f"laminar log {name}",
                )
            return "redo", state.undo[-1].id, state.undo[-1].cursor

        return self._append(path, name, choose, why, first)

    # tags: any name

    def tag(self, name: str, id: str, *, force: bool = False, why: str = "tag") -> None:
        """Name a layer. A tag that names another layer is only moved by `force`."""
        if not is_tag(name):
            raise LaminarError(
                "L008",
                f"{name[:80]!r} is no name for a tag: expected e.g. name:v1, without ~ @ #, {LONGEST} characters at most",
                hint="laminar tag REF name:v1",
            )
        path = self._layout.tag(name)

        def choose(state: State) -> Chosen | None:
            if state.id == id:
                return None
            if state.id is not None and not force:
                raise LaminarError(
                    "L008", f"tag {name} already names {short(state.id)}, not {short(id)}", hint=f"laminar tag {short(id)} {name} --force"
                )
            return "set", id, None

        self._append(path, name, choose, why)

    def tags(self, *, damaged: bool = True) -> dict[str, str]:
        """Every tag and the id it names. L303 when one is damaged; or it is left out, for who asks about others (`damaged=False`)."""
        found: dict[str, str] = {}
        for path in (path for path in self.files() if path.parent.name == TAGS):
            try:
                if (id := self._state(path).id) is not None:
                    found[unquoted(path.stem)] = id
            except LaminarError:
                if damaged:
                    raise
        return dict(sorted(found.items()))

    def tagged(self, name: str) -> str | None:
        """The id that one tag names; no other is looked at. L303 when it is damaged."""
        try:
            return self._state(self._layout.tag(name)).id
        except UnicodeEncodeError:  # half a character: no file is called so
            return None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return None

    def untag(self, name: str) -> None:
        path = self._layout.tag(name)
        with self._lock(_lock_name(self._layout, path)):
            if self._state(path).id is None:
                raise LaminarError("L006", f"no tag {name}; {did_you_mean(name, self.tags(damaged=False))}", hint="laminar log --tags")
            path.unlink(missing_ok=True)
            log_of(path).unlink(missing_ok=True)

    # all ids that a ref or tag ever had: the roots of gc

    def every(self) -> Iterator[tuple[str, State, list[Entry]]]:
        """(name, state, log) of every ref and tag. L303 when one is damaged: gc must not guess."""
        for path in self.files():
            read = reflog.parse(_bytes(log_of(path)))
            if read.bad:
                raise self._damaged(path, read.bad[0])
            if path.exists():
                records.read(path)  # L303 when damaged
            yield self.name_of(path), reflog.replay(read.entries), read.entries

    def name_of(self, path: Path) -> str:
        """`stack/layer`, or the tag."""
        name = unquoted(path.stem)
        return name if path.parent.name == TAGS else f"{unquoted(path.parent.name)}/{name}"

    def _gone(self, name: str, state: State, id: str) -> LaminarError:
        """A layer of the history that is no longer here: how far one can go back."""
        layer = name.rsplit("/", 1)[-1]
        said = f"{short(id)} was {name} once, but is no longer in the store (gc --keep lets old layers go)"
        for cursor in range(state.cursor):
            if self._exists(state.history[cursor]):
                back = state.cursor - cursor
                return LaminarError(
                    "L010",
                    f"{said}; the earliest that can be gone back to is {short(state.history[cursor])}, {layer}~{back}",
                    hint=f"laminar rollback {layer}~{back}, or laminar pull REMOTE {name}@sha256:{id} where a remote has it",
                )
        return LaminarError(
            "L010",
            f"{said}; no earlier layer of {name} is left to go back to",
            hint=f"laminar pull REMOTE {name}@sha256:{id} where a remote has it, or set laminar.toml back and laminar build",
        )

    def _damaged(self, path: Path, line: int) -> LaminarError:
        name, log = self.name_of(path), log_of(path)
        what = f"tag {name}" if path.parent.name == TAGS else name
        return LaminarError(
            "L303",
            f"the history of {what} is damaged: line {line} of {log} is not what was written",
            hint="laminar verify --repair; until then, name the layer by its id",
        )

    def _known(self, name: str) -> Path:
        path = self._layout.ref(name)
        if self._state(path).id is None:
            raise LaminarError("L006", f"no layer was built as {name}; {did_you_mean(name, self.names())}", hint="laminar build")
        return path

    def files(self) -> list[Path]:
        """The file of every ref and tag, also where only its log is there."""
        found = set(self._layout.refs.glob("*/*.json"))
        found |= {path.with_suffix(".json") for path in self._layout.refs.glob("*/*.log")}
        return sorted(path for path in found if not path.name.startswith("."))

    def _state(self, path: Path) -> State:
        """From the ref's file when it is of the log's present size, else from the log."""
        log = log_of(path)
        try:
            cached = records.read(path)
        except LaminarError:
            cached = None
            if not log.exists():
                raise
        size = log.stat().st_size if log.exists() else 0
        if cached is not None and (cached["log"] == size or size == 0):
            return State(history=tuple(cached["history"]), cursor=cached["cursor"])
        read = reflog.parse(_bytes(log))
        if read.bad:
            if cached is not None and cached["log"] >= read.whole:
                return State(history=tuple(cached["history"]), cursor=cached["cursor"])
            raise self._damaged(path, read.bad[0])
        return reflog.replay(read.entries)

    def _append(self, path: Path, name: str, choose: Callable[[State], Chosen | None], why: str, first: First | None = None) -> str:
        with self._guard(), self._lock(_lock_name(self._layout, path)):
            state = self._state(path)
            log = log_of(path)
            read = reflog.parse(_bytes(log))
            told = reflog.replay(read.entries)
            if not read.bad and (told.history, told.cursor) == (state.history, state.cursor):
                state = told  # only the log knows what can be redone
            chosen = choose(state)
            if chosen is None:
                if not path.exists():
                    records.write(path, reflog.summary(name, state, len(_bytes(log))), tmp=self._layout.tmp)
                return state.id or ""
            op, id, cursor = chosen
            if not self._exists(id):
                raise LaminarError(
                    "L305", f"{name} cannot point at {short(id)}: there is no such layer in the store", hint=f"laminar log {name}"
                )
            if read.bad:
                raise self._damaged(path, read.bad[0])
            entry = Entry(n=len(read.entries) + 1, op=op, id=id, was=state.id, time=self._clock.now(), why=why, cursor=cursor)
            if first is not None:
                first(state, entry)
            size = append_line(log, reflog.line(entry), whole=read.whole)
            records.write(path, reflog.summary(name, reflog.step(state, entry), size), tmp=self._layout.tmp)
            return id


def log_of(path: Path) -> Path:
    return path.with_suffix(".log")


def append_line(log: Path, text: bytes, *, whole: int) -> int:
    """Add a line and sync it; what a killed writer left after the first `whole` bytes is cut off. The size afterwards."""
    with atomic.explaining_os_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        new = not log.exists()
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | BINARY, 0o644)
        try:
            os.ftruncate(fd, whole)
            try:
                at = whole
                view = memoryview(text)
                while view.nbytes:
                    done = write_at(fd, view, at)
                    at, view = at + done, view[done:]
                os.fsync(fd)
            except OSError:
                with contextlib.suppress(OSError):  # a full disk: take the half line back
                    os.ftruncate(fd, whole)
                raise
        finally:
            os.close(fd)
        if new:
            atomic.fsync_folder(log.parent)
            atomic.fsync_folder(log.parent.parent)
        return whole + len(text)


def _bytes(path: Path) -> bytes:
    try:
        return atomic.read_bytes(path)
    except FileNotFoundError:
        return b""


def _lock_name(layout: Layout, path: Path) -> str:
    return "ref-" + str(path.relative_to(layout.refs).with_suffix(""))
