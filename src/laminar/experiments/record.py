"""What is kept of an experiment: its description, and one line per trial, written as each ends.

    .laminar/experiments/NAME/experiment.json      the description: axes, variants, which of them is the benchmark
    .laminar/experiments/NAME/trials.jsonl         one `Trial` per line, appended and synced; a torn last line is ignored

Everything else (tables, intervals, verdicts, pictures) is computed from these two and can be made again. files.py reads and writes them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from laminar.experiments.results import Cell, Extra

Outcome = Literal["done", "failed", "stopped"]  # stopped: it was hopeless, and ended early


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs between variants. `path` says where in the stack it is; `unit` is for tables."""

    name: str  # "neurons"
    values: tuple[Any, ...]
    path: str = ""  # "layer.head.args.hidden"
    unit: str = ""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the product of the axes."""

    id: str  # sha256 of the settings, shortened
    label: str  # "128 neurons", for tables and legends
    settings: dict[str, Any]  # axis name -> value
    line: str = ""  # variants of one line belong together in pictures and fits, whatever else differs between them


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a paper, shown beside ours. In per cent of the paper's benchmark, or as it stands."""

    variant: str  # id
    measure: str
    value: float
    percent: bool
    source: str


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that the experiment is to confirm or refute, and the rule by which it is judged (experiments/statements.py)."""

    text: str
    rule: str
    arguments: dict[str, Any] = {}
    claim: str = ""  # whose sentence it is: "2.a" of the founding documents, "ours", or whatever the author of a sweep calls it


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked. It does not change while trials are added; another question is another experiment."""

    name: str
    title: str
    question: str
    stack: str
    layer: str  # the one that varies
    axes: tuple[Axis, ...]
    variants: tuple[Variant, ...]
    benchmark: str  # id of the variant that is 100 %
    measures: tuple[str, ...]  # "seconds", "accuracy", "loss", "bytes" …, in the order of tables
    repeats: int
    warm_up: int = 0  # trials per variant that are run first and not counted
    timed: bool = True  # trials run one after the other, on a quiet machine
    target: float | None = None  # accuracy that is waited for, where time to target is a measure
    quick: bool = False
    published: tuple[Published, ...] = ()
    statements: tuple[Statement, ...] = ()
    machine: dict[str, Any] = {}  # cores, memory, versions
    created: float = 0.0
    inputs: dict[str, str] = {}  # variant id -> sha256 of all that determines what it learns: stack, data, code, version of torch
    notes: tuple[str, ...] = ()  # what a reader has to know: how it was made quick, …
    study: str = ""  # where published figures are from
    epochs: tuple[dict[str, float], ...] = ()  # published of each epoch of the benchmark: "train_accuracy", "seconds"
    command: str = ""  # that ran it last, without its budget
    facts: dict[str, dict[str, Cell]] = {}  # variant id -> how it is trained: processes, threads, samples a step (differences.py)
    tables: tuple[Extra, ...] = ()  # of figures that no trial gives: arithmetic of a study


class Point(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One epoch of a trial. Seconds count from the first step."""

    epoch: int  # epochs that are behind it: the first point has 1
    seconds: float
    step: int = 0
    loss: float | None = None  # of training
    accuracy: float | None = None
    test_loss: float | None = None  # of the part that is held out
    test_accuracy: float | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One variant, trained once."""

    variant: str  # id
    repeat: int
    outcome: Outcome
    started: float
    wall: float  # seconds, with everything
    seconds: float = 0.0  # of training alone: the measure "seconds"
    counted: bool = True  # False: warm-up, or on a busy machine and repeated
    busy: float = 0.0  # share of a core that others took meanwhile
    why_not: str = ""  # why it is not counted
    metrics: dict[str, float] = {}  # at the end, by measure
    curve: tuple[Point, ...] = ()
    series: dict[str, tuple[float, ...]] = {}  # staleness, bytes … over time
    team: dict[str, Any] = {}  # as the report of a build has it
    layer: str = ""  # id in the store
    run: str = ""
    reused: bool = False  # it was trained before, and is in the store
    spent: dict[str, float] = {}  # seconds of the wall: "features", "training" with its "checkpoints", "keeping"
    error: dict[str, str] = {}  # code, message, hint
    settings: dict[str, Any] = {}  # of a variant that a search proposed, and the description does not know
    sum_of: tuple[str, ...] = ()  # variants whose trials of this repeat it is the sum of: nothing was trained for it
