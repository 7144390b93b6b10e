"""Results: what the trials of an experiment say, as values. Tables, pages and pictures are made of a `Summary`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from laminar.experiments.intervals import Interval

Cell = float | int | str | None  # None: not known
Verdict = Literal["benchmark", "more", "less", "inside the noise", "too few repeats"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one variant."""

    n: int  # trials it is known of
    median: float
    least: float
    most: float
    low_quartile: float
    high_quartile: float
    interval: Interval | None  # of the median
    verdict: Verdict
    percent: float | None = None  # of the benchmark's median; None where values are not all above 0
    percent_interval: Interval | None = None
    difference: float | None = None  # from the benchmark's median
    difference_interval: Interval | None = None
    published: float | None = None
    published_percent: bool = False
    source: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One variant."""

    variant: str
    label: str
    settings: dict[str, Any]
    benchmark: bool
    counted: int
    failed: int = 0
    stopped: int = 0
    not_counted: int = 0
    busy: int = 0  # counted, although others were busy
    figures: dict[str, Figure] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    variant: str
    label: str
    repeat: int
    code: str
    message: str
    hint: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A statement, and what the trials say of it."""

    text: str
    verdict: Literal["confirmed", "refuted", "not shown"]
    words: str
    numbers: dict[str, float] = {}
    claim: str = ""  # as the statement has it


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """A table besides that of all variants (extras.py)."""

    name: str  # of its file
    title: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    question: str
    stack: str
    layer: str
    benchmark: str  # label
    measures: tuple[str, ...]  # those that are known of some trial
    units: dict[str, str]
    rows: tuple[Row, ...]
    planned: int  # trials that are to be counted
    done: int  # of them
    failures: tuple[Failure, ...] = ()
    statements: tuple[Judged, ...] = ()
    seconds: float = 0.0  # of all trials, with everything
    quick: bool = False
    timed: bool = True
    notes: tuple[str, ...] = ()
    method: str = ""
    study: str = ""  # where published figures are from
    tables: tuple[Extra, ...] = ()
