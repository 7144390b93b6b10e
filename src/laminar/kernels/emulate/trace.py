"""Who wrote what each read got: of every element and variable the emulator keeps the place and the instance that wrote it last.

A flow is all that a place of the text read of what one other place had written. The first reads are also kept one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from laminar.kernels.language.tree import At, Object, Variable

MOST_READS: Final = 1000
"""Reads that are kept one by one."""
GIVEN: Final = (-1, -1)
"""The writer of what was there at the start: values and arrays of the caller, and zeros of outputs that the caller left out."""


@dataclass(frozen=True)
class End:
    """A place of the text that reads or writes a variable or an array."""

    at: At
    of: Variable | Object


@dataclass
class Flow:
    """`writer` and `first_writer`: None of what nobody wrote, and of what was there at the start: then `given` is true. `own`: reads of
    what the reading instance wrote itself; `near`, `far`: the least and the largest difference of the reader's number and another
    writer's."""

    reader: End
    writer: End | None
    given: bool
    first_reader: int
    first_writer: int | None
    first_element: int | None
    times: int = 0
    own: int = 0
    near: int | None = None
    far: int | None = None

    def add(self, instance: int, by: int) -> None:
        self.times += 1
        if instance == by:
            self.own += 1
        elif self.writer is not None:
            apart = instance - by
            self.near = apart if self.near is None else min(self.near, apart)
            self.far = apart if self.far is None else max(self.far, apart)

    @property
    def whose(self) -> str:
        """In words, of whom the values are."""
        if self.given:
            return "given"
        if self.writer is None:
            return "nobody"
        if self.near is None or self.far is None:
            return "itself"
        others = _side(self.near) if self.near == self.far else f"{_side(self.near)} to {_side(self.far)}"
        return f"another instance: {others}" if not self.own else f"itself {self.own:,} times, else another instance: {others}"


def _side(apart: int) -> str:
    return f"{abs(apart):,} {'before' if apart > 0 else 'after'}"


@dataclass(frozen=True)
class OneRead:
    reader: End
    instance: int
    element: int | None
    writer: End | None
    by: int | None
    given: bool


@dataclass
class Trace:
    """What the emulated kernel calls. A writer is the number of an end and an instance, `GIVEN`, or None; `ends` are those of its text."""

    ends: list[End]
    index_of: Callable[[Object, int], tuple[int, ...]]
    reads: list[OneRead] = field(default_factory=list)
    left_out: int = 0
    _flows: dict[tuple[int, int | None], Flow] = field(default_factory=dict)

    def got(self, reader: int, instance: int, element: int | None, writer: tuple[int, int] | None) -> None:
        number, by = (None, -1) if writer is None else writer
        key = (reader, number)
        flow = self._flows.get(key)
        if flow is None:
            end = None if number is None or number < 0 else self.ends[number]
            first = None if end is None else by
            flow = self._flows[key] = Flow(self.ends[reader], end, number == GIVEN[0], instance, first, element)
        flow.add(instance, by)
        if len(self.reads) < MOST_READS:
            told = None if flow.writer is None else by
            self.reads.append(OneRead(flow.reader, instance, element, flow.writer, told, flow.given))
        else:
            self.left_out += 1

    @property
    def flows(self) -> list[Flow]:
        """In the order of the text."""
        first = At(0, 0)
        return sorted(self._flows.values(), key=lambda one: (one.reader.at, one.reader.of.name, one.writer.at if one.writer else first))

    def to_json(self) -> dict[str, Any]:
        return {
            "flows": [self._flow(one) for one in self.flows],
            "reads": [
                {**_read(one.reader), "instance": one.instance, "index": self._index(one.reader, one.element)}
                | {"from": _writer(one.writer, one.given), "writer": one.by}
                for one in self.reads
            ],
            "reads_left_out": self.left_out,
        }

    def _flow(self, one: Flow) -> dict[str, Any]:
        return {
            **_read(one.reader),
            "from": _writer(one.writer, one.given),
            "times": one.times,
            "own": one.own,
            "nearest": one.near,
            "farthest": one.far,
            "first": {
                "instance": one.first_reader,
                "index": self._index(one.reader, one.first_element),
                "writer": one.first_writer,
            },
        }

    def _index(self, end: End, element: int | None) -> list[int]:
        return list(self.index_of(end.of, element)) if isinstance(end.of, Object) and element is not None else []

    def rows(self) -> list[list[str]]:
        """Of a table for people, under `COLUMNS`."""
        made = []
        for one in self.flows:
            of = one.reader.of
            memory = of.memory if isinstance(of, Object) else "register"
            place = f"{one.writer.at.line}:{one.writer.at.column}" if one.writer else ""
            element = "".join(f"[{number}]" for number in self._index(one.reader, one.first_element))
            first = f"instance {one.first_reader} gets {of.name}{element}"
            first += f" of instance {one.first_writer}" if one.first_writer not in (None, one.first_reader) else ""
            made.append([f"{one.reader.at.line}:{one.reader.at.column}", of.name, memory, place, one.whose, first, f"{one.times:,}"])
        return made


COLUMNS: Final = ("read at", "object", "memory", "written at", "by", "first of these reads", "times")


def _read(end: End) -> dict[str, Any]:
    return {"line": end.at.line, "column": end.at.column, "object": end.of.name}


def _writer(end: End | None, given: bool) -> dict[str, int] | str | None:
    return "given" if given else None if end is None else {"line": end.at.line, "column": end.at.column}
