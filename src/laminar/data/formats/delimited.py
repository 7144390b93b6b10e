"""Delimited text (CSV): a line of column names, then a line a sample. Every mistake is told with its line and column.

Rows are parsed many at a time; only where that fails, the file is read again row by row to find whose fault it is.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import Literal

import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.dataset import Array
from laminar.data.room import Room

_CELLS = 1 << 16  # parsed at once
_LISTED = 24  # columns that a hint names
Column = str | int


@dataclass(frozen=True)
class Labels:
    kind: Literal["text", "whole", "real"]
    values: Array  # int64 positions in `names`, int64, or float64
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Delimited:
    """A file, and which of its columns are meant."""

    path: Path
    delimiter: str
    columns: tuple[str, ...]  # all there are
    label: int
    chosen: tuple[int, ...]  # samples

    def labels(self, *, text: bool = False) -> Labels:
        """The label of every row: text where any is no number (or where `text` is asked for), real where any is not whole."""
        if not text:
            numbers, whole = array("d"), True
            try:
                for rows in self._rows():
                    for row in rows:
                        whole = whole and _is_whole(row[self.label])
                        numbers.append(float(row[self.label]))
            except ValueError:
                return self.labels(text=True)
            values = np.frombuffer(numbers, dtype=np.float64) if numbers else np.empty(0)
            if not np.isfinite(values).all() or (whole and len(values) and values.min() < 0):
                self._blame(labels="whole" if whole else "real")
            return Labels("whole", values.astype(np.int64)) if whole else Labels("real", values)
        codes, seen = array("q"), dict[str, int]()
        for rows in self._rows():
            codes.extend(seen.setdefault(row[self.label].strip(), len(seen)) for row in rows)
        if "" in seen:
            self._blame(labels="text")
        names = sorted(seen)
        place = np.array([names.index(name) for name in seen], dtype=np.int64)
        return Labels("text", place[np.frombuffer(codes, dtype=np.int64)] if codes else np.empty(0, dtype=np.int64), tuple(names))

    def samples(self, count: int, room: Room) -> Array:
        """(count, chosen columns) float32."""
        out = room.empty((count, len(self.chosen)), np.float32)
        pick = itemgetter(*self.chosen) if len(self.chosen) > 1 else lambda row: (row[self.chosen[0]],)
        done, width = 0, len(self.chosen)
        for rows in self._rows():
            try:
                numbers = np.fromiter(map(float, chain.from_iterable(map(pick, rows))), dtype=np.float64, count=len(rows) * width)
            except ValueError:
                self._blame()
            with np.errstate(over="ignore"):
                some = numbers.astype(np.float32).reshape(len(rows), -1)
            if not np.isfinite(some).all():
                self._blame()
            if done + len(rows) > count:
                raise _growing(self.path)
            out[done : done + len(rows)] = some
            done += len(rows)
        if done != count:
            raise _growing(self.path)
        return out

    def _rows(self) -> Iterator[list[list[str]]]:
        """All rows, many at a time; each has a cell for every column."""
        width = len(self.columns)
        with _reading(self.path, self.delimiter) as reader:
            next(reader)
            while rows := list(islice(reader, max(1, _CELLS // width))):
                if any(len(row) != width for row in rows):
                    rows = [row for row in rows if row]  # lines without anything
                    if any(len(row) != width for row in rows):
                        self._blame()
                yield rows

    def _blame(self, labels: Literal["text", "whole", "real"] | None = None) -> None:
        """Find the first wrong cell, and say so."""
        with _reading(self.path, self.delimiter) as reader:
            next(reader)
            for row in reader:
                line = reader.line_num
                if row and len(row) != len(self.columns):
                    raise LaminarError(
                        "L102",
                        f"{self.path}, line {line}: {len(row)} cells, expected {len(self.columns)} ({', '.join(self.columns[:6])}"
                        + (", …)" if len(self.columns) > 6 else ")"),
                        hint="mend the line; cells that contain the delimiter stand in double quotes",
                    )
                for place in () if not row else (self.label,) if labels else self.chosen:
                    wrong = _wrong(row[place], labels or "real")
                    if wrong:
                        raise LaminarError(
                            "L110",
                            f"{self.path}, line {line}, column '{self.columns[place]}': {row[place][:40]!r} is {wrong}",
                            hint="mend the cell" if labels else f"mend the cell{self._without_text(place)}",
                        )
        raise _growing(self.path)

    def _without_text(self, place: int) -> str:
        """What to write where a column holds text: columns that can be read as they are, so that no later error contradicts this hint."""
        numbers = {*self.chosen, self.label}
        with _reading(self.path, self.delimiter) as reader:
            next(reader)
            for row in reader:
                if len(row) == len(self.columns):
                    numbers -= {column for column in numbers if _wrong(row[column], "real")}
        columns = [f'"{self.columns[column]}"' for column in self.chosen if column in numbers]
        if len(columns) > _LISTED:
            return f", or list in args.columns the {len(columns)} of {len(self.chosen)} columns that hold numbers only"
        if columns:
            return f", or take the columns of numbers only: args = {{ columns = [{', '.join(columns)}] }}"
        if self.label in numbers:
            return f"; if '{self.columns[place]}' is the label: args = {{ label = \"{self.columns[place]}\" }}"
        return f": beside the label '{self.columns[self.label]}' there is no column of numbers"


def open_delimited(path: Path, delimiter: str, label: Column | None, columns: list[Column] | None) -> Delimited:
    """The file with its columns looked up: label "label", or the last one; samples all others."""
    with _reading(path, delimiter) as reader:
        names = [name.strip() for name in next(reader, [])]
    if not names:
        raise LaminarError("L103", f"{path} is empty", hint="expected a line with the names of the columns, then a line a sample")
    if len(names) < 2:
        raise LaminarError(
            "L102",
            f"{path}, line 1: a single column '{names[0][:60]}' with delimiter {delimiter!r}; expected a label and one column or more",
            hint='args = { delimiter = ";" }, or what stands between the cells',
        )
    if all(_wrong(name, "real") == "" for name in names):
        raise LaminarError(
            "L102", f"{path}, line 1: {', '.join(names[:4])}, … are numbers, expected names of columns", hint="add a line with names"
        )
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise LaminarError("L102", f"{path}, line 1: two columns are called '{twice}'", hint="give every column a name of its own")
    usual: Column = "label" if "label" in names else len(names) - 1
    target = find_column(usual if label is None else label, names, path, "label")
    wanted: list[Column] = [i for i in range(len(names)) if i != target] if columns is None else columns
    chosen = [find_column(column, names, path, "columns") for column in wanted]
    if target in chosen:
        raise LaminarError("L109", f"args.columns: '{names[target]}' is the label", hint="take it out of columns, or choose another label")
    return Delimited(path, delimiter, tuple(names), target, tuple(chosen))


def find_column(wanted: Column, names: list[str], path: Path, setting: str) -> int:
    if isinstance(wanted, str) and wanted in names:
        return names.index(wanted)
    if isinstance(wanted, int) and not isinstance(wanted, bool) and -len(names) <= wanted < len(names):
        return wanted % len(names)
    what = did_you_mean(wanted, names) if isinstance(wanted, str) else f"there are {len(names)}"
    raise LaminarError("L109", f"args.{setting}: {path} has no column {wanted!r}; {what}", hint=f"columns: {', '.join(names[:12])}")


@contextmanager
def _reading(path: Path, delimiter: str) -> Iterator[csv._reader]:  # type: ignore[name-defined]
    reader = None
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            yield reader
    except csv.Error as error:
        line = reader.line_num if reader is not None else 1
        raise LaminarError("L102", f"{path}, line {line}: {error}", hint="mend the line: a quote inside a cell is doubled") from error
    except UnicodeDecodeError as error:
        line = reader.line_num + 1 if reader is not None else 1
        raise LaminarError("L102", f"{path}, about line {line}: {error.reason}; expected UTF-8", hint="save it as UTF-8") from error
    except OSError as error:
        raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error


def _wrong(cell: str, kind: Literal["text", "whole", "real"]) -> str:
    """What is wrong with it; empty where nothing is."""
    if not cell.strip():
        return "empty"
    if kind == "text":
        return ""
    try:
        value = float(cell)
    except ValueError:
        return "not a number"
    if not isfinite(value) or abs(value) > float(np.finfo(np.float32).max):
        return "not finite, or too large for float32"
    return "negative, but classes are numbered from 0" if kind == "whole" and value < 0 else ""


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _growing(path: Path) -> LaminarError:
    return LaminarError("L102", f"{path} changed while it was read", hint="wait until the file is complete")
