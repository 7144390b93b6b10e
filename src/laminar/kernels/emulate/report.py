"""What came of a run: outputs; reads, writes and bytes by memory, by object and by line; strides; findings.

Made of accesses and registers by whoever ran the kernel: the emulator, or native code with counters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from laminar.kernels.emulate.findings import Finding
from laminar.kernels.emulate.strides import Stride
from laminar.kernels.emulate.trace import COLUMNS, Trace
from laminar.kernels.emulate.writer import Kind
from laminar.kernels.language.tree import SIZES, At, Kernel, Object

MEMORIES: Final = ("global", "shared", "local", "register")


@dataclass(frozen=True)
class Access:
    """A place of the text that looks at an array, and how often it did. An atomic is a read and a write."""

    at: At
    object: Object
    kind: Kind
    times: int
    stride: Stride | None = None

    @property
    def counts(self) -> Counts:
        reads, writes = self.times * (self.kind != "write"), self.times * (self.kind != "read")
        return Counts(reads, writes, (reads + writes) * SIZES[self.object.type])


@dataclass(frozen=True)
class Register:
    """Variables of a line."""

    line: int
    reads: int
    writes: int
    bytes: int


@dataclass(frozen=True)
class Counts:
    reads: int = 0
    writes: int = 0
    bytes: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.reads + other.reads, self.writes + other.writes, self.bytes + other.bytes)

    def to_json(self) -> dict[str, int]:
        return {"reads": self.reads, "writes": self.writes, "bytes": self.bytes}


@dataclass(frozen=True, eq=False)
class Report:
    kernel: Kernel
    instances: int
    outputs: dict[str, np.ndarray[Any, Any]]
    accesses: tuple[Access, ...]
    registers: tuple[Register, ...]
    findings: tuple[Finding, ...]
    shapes: dict[Object, tuple[int, ...]]
    file: str = "kernel.c"
    trace: Trace | None = None

    @property
    def counts(self) -> dict[str, Counts]:
        """By memory."""
        found = {memory: _sum(one.counts for one in self.accesses if one.object.memory == memory) for memory in MEMORIES[:3]}
        return found | {"register": _sum(Counts(one.reads, one.writes, one.bytes) for one in self.registers)}

    @property
    def objects(self) -> dict[Object, Counts]:
        return {one: _sum(access.counts for access in self.accesses if access.object is one) for one in self.kernel.objects}

    @property
    def lines(self) -> dict[int, dict[str, Counts]]:
        """By line and memory, of lines that do something."""
        found: dict[int, dict[str, Counts]] = {}
        rows = [(one.at.line, one.object.memory, one.counts) for one in self.accesses]
        rows += [(one.line, "register", Counts(one.reads, one.writes, one.bytes)) for one in self.registers]  # type: ignore[misc]
        for line, memory, counts in rows:
            row = found.setdefault(line, dict.fromkeys(MEMORIES, Counts()))
            row[memory] += counts
        return dict(sorted(found.items()))

    def to_json(self, files: dict[str, str] | None = None) -> dict[str, object]:
        """`files`: where each output was saved."""
        text = self.kernel.text.split("\n")
        return {
            "instances": self.instances,
            "outputs": files or {},
            "counts": {memory: counts.to_json() for memory, counts in self.counts.items()},
            "objects": [
                {"name": one.name, "type": one.type, "shape": list(self.shapes[one]), "memory": one.memory, **counts.to_json()}
                for one, counts in self.objects.items()
            ],
            "lines": [
                {"line": line, "text": text[line - 1].strip(), **{memory: counts.to_json() for memory, counts in row.items()}}
                for line, row in self.lines.items()
            ],
            "strides": [
                {"line": one.at.line, "column": one.at.column, "object": one.object.name, "access": one.kind, **one.stride.to_json()}
                for one in self.accesses
                if one.stride is not None
            ],
            "findings": [one.to_json() for one in self.findings],
            "trace": None if self.trace is None else self.trace.to_json(),
        }

    def text(self) -> str:
        """Tables for people."""
        rows = [["memory", "reads", "writes", "bytes"]]
        rows += [[memory, *_cells(counts)] for memory, counts in self.counts.items() if counts.bytes]
        parts = [f"{self.instances:,} instances", _table(rows)]
        rows = [["object", "type", "shape", "memory", "reads", "writes", "bytes"]]
        rows += [[one.name, one.type, _shape(self.shapes[one]), one.memory, *_cells(counts)] for one, counts in self.objects.items()]
        parts.append(_table(rows, left=4))
        rows = [["line", *(f"{memory} {way}" for memory in self._used for way in ("r", "w")), "bytes", ""]]
        source = self.kernel.text.split("\n")
        for line, row in self.lines.items():
            cells = [f"{number:,}" if number else "" for memory in self._used for number in (row[memory].reads, row[memory].writes)]
            rows.append([str(line), *cells, f"{sum(one.bytes for one in row.values()):,}", source[line - 1].strip()])
        parts.append(_table(rows, left=0, last_left=True))
        strided = [one for one in self.accesses if one.stride is not None and one.stride.pattern != "alone"]
        if strided:
            rows = [["place", "object", "access", "neighbours are", "apart"]]
            for one in strided:
                assert one.stride is not None
                apart = "" if one.stride.stride is None else f"{one.stride.stride:+,}"
                rows.append([f"{one.at.line}:{one.at.column}", one.object.name, one.kind, one.stride.pattern, apart])
            parts.append(_table(rows, left=4))
        return "\n\n".join(parts)

    def trace_text(self) -> str:
        """Who wrote what each read got, as a table."""
        assert self.trace is not None
        return _table([list(COLUMNS), *self.trace.rows()], left=6)

    @property
    def _used(self) -> list[str]:
        return [memory for memory, counts in self.counts.items() if counts.bytes]


def _sum(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


def _cells(counts: Counts) -> list[str]:
    return [f"{counts.reads:,}", f"{counts.writes:,}", f"{counts.bytes:,}"]


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _table(rows: list[list[str]], left: int = 1, *, last_left: bool = False) -> str:
    """`left`: so many columns are words."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    words = [column < left or (last_left and column == len(widths) - 1) for column in range(len(widths))]
    return "\n".join(
        "  ".join(cell.ljust(width) if word else cell.rjust(width) for cell, width, word in zip(row, widths, words, strict=True)).rstrip()
        for row in rows
    )
