"""Sweeps: what may be written in sweep.toml, and reading it. Every key is listed in ref-sweep-file.md.

name = "width"
question = "How wide should the head be?"
measures = ["seconds", "accuracy"]

[axes]
neurons = [32, 128, 512]
lr = [0.001, 0.01]
"""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from laminar.core.errors import LaminarError, docs
from laminar.core.nearest import did_you_mean, nearest
from laminar.core.toml_words import in_toml_words
from laminar.experiments.measures import AGAINST_OTHERS, AT_RUNGS, MEASURES, TO_TARGET
from laminar.experiments.record import Statement
from laminar.experiments.statement_arguments import check_rule
from laminar.stack.locate import line_of

DEFAULT_MEASURES: Final = ("seconds", "accuracy", "loss", "overfit")
Goal = Literal["most", "least"]


class AxisSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An axis with more to say than its values."""

    values: list[Any]
    path: str | None = None  # what it changes, where its name does not say
    unit: str = ""


class VariantSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variant by itself, where they are no product of axes."""

    settings: dict[str, Any]
    label: str = ""
    line: str = ""  # those of one line are joined in pictures and fits, although more than one setting differs


class PublishedSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of a paper for the variant with these settings."""

    settings: dict[str, Any]
    measure: str
    value: float
    source: str
    percent: bool = True


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When either is used up, no other trial is begun, and the one under way is left; running it again goes on."""

    hours: Annotated[float, Meta(gt=0)] | None = None
    trials: Annotated[int, Meta(ge=1)] | None = None


class Halving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All variants are trained for `first` epochs; one in `keep` goes on for `keep` times as many, and so on (order.py)."""

    measure: str = "accuracy"
    goal: Goal | None = None  # None: as the measure has it
    keep: Annotated[int, Meta(ge=2)] = 3
    first: Annotated[int, Meta(ge=1)] = 1


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values to search in: low to high, or a choice."""

    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    step: float | int | None = None
    choices: list[Any] | None = None

    def __post_init__(self) -> None:
        if (self.choices is None) == (self.low is None or self.high is None):
            raise ValueError("a range has either low and high, or choices")
        if self.choices is not None and not self.choices:
            raise ValueError("choices is empty")
        if self.choices is not None and (self.low is not None or self.high is not None or self.step is not None or self.log):
            raise ValueError("choices are taken as they are: low, high, step and log belong to ranges of numbers")
        for name, given in (("low", self.low), ("high", self.high), ("step", self.step)):
            if given is not None and not math.isfinite(given):
                raise ValueError(f"{name} is {given}, but must be finite")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"low is {self.low} and high is {self.high}, but low must be below high")
        if self.step is not None and self.low is not None and self.high is not None:
            if not 0 < self.step <= self.high - self.low:
                raise ValueError(f"step is {self.step}, but must be above 0 and at most {self.high - self.low:g}, from low to high")
            if self.is_whole and not isinstance(self.step, int):
                raise ValueError(f"step is {self.step} between whole numbers, but must be whole; low = {float(self.low)} takes others too")
        if self.log and (self.low is None or self.low <= 0 or self.step is not None):
            raise ValueError("log = true needs low above 0, and no step")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def holds(self, value: Any) -> bool:
        """Could a search in this range have proposed it?"""
        if self.choices is not None:
            return value in self.choices
        if self.low is None or self.high is None or not isinstance(value, int | float) or (self.is_whole and not isinstance(value, int)):
            return False
        steps = (value - self.low) / self.step if self.step is not None else 0.0
        return self.low <= value <= self.high and abs(steps - round(steps)) < 1e-8


class Search(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Variants are proposed one after the other, each by what is known of those before (search.py)."""

    ranges: dict[str, Range]
    trials: Annotated[int, Meta(ge=1, le=10_000)] = 20
    measure: str = "accuracy"
    goal: Goal | None = None
    seed: int = 0


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sweep as written. From Python: `Sweep(name="cores", axes={"workers": [1, 2, 3, 4]})`."""

    name: str
    title: str = ""
    question: str = ""
    stack: str | None = None  # another laminar.toml than the one at hand
    layer: str | None = None  # the one that varies; default: the last of the stack
    axes: dict[str, list[Any] | AxisSpec] = {}
    variant: list[VariantSpec] = []
    set: dict[str, Any] = {}  # for all variants, instead of what the stack says
    benchmark: dict[str, Any] = {}  # settings of the variant that is 100 %; what is left out has its first value
    repeats: Annotated[int, Meta(ge=1, le=1000)] = 3
    warm_up: Annotated[int, Meta(ge=0, le=100)] | None = None  # default: 1 where time is measured
    timed: bool | None = None  # default: yes, unless it halves or searches
    even_if_busy: bool = False  # time is measured whatever others do meanwhile
    measures: list[str] = msgspec.field(default_factory=lambda: list(DEFAULT_MEASURES))
    target: float | None = None
    order_seed: int = 0
    budget: Budget = Budget()
    halving: Halving | None = None
    search: Search | None = None
    published: list[PublishedSpec] = []
    statement: list[Statement] = []

    @property
    def is_timed(self) -> bool:
        return self.halving is None and self.search is None if self.timed is None else self.timed

    @property
    def warm_ups(self) -> int:
        return (1 if self.is_timed else 0) if self.warm_up is None else self.warm_up


def read_sweep(path: Path) -> Sweep:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LaminarError("L016", f"there is no {path}", hint=f"write one: {docs('ref-sweep-file.md')}") from None
    except UnicodeDecodeError as error:
        raise LaminarError("L016", f"{path.name} is not UTF-8 text: {error}", hint="save it as UTF-8") from None
    except OSError as error:
        raise LaminarError("L016", f"{path} cannot be read: {error.strerror}", hint="name a file that you may read") from None
    return parse_sweep(text, path)


def parse_sweep(text: str, path: Path) -> Sweep:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        where = f"{path.name}:{found[1]}" if found else path.name
        raise LaminarError("L016", f"{where}: not valid TOML: {error}", hint="mend that line; https://toml.io shows the syntax") from None
    try:
        sweep = msgspec.convert(raw, Sweep)
    except msgspec.ValidationError as error:
        raise _explained(error, text, path) from None
    sweep = checked(sweep, path.name)
    if sweep.search is None:  # whose variants are not known yet
        for statement in sweep.statement:
            _check_speaks_of(statement, sweep, path.name)
    return sweep


def _check_speaks_of(statement: Statement, sweep: Sweep, where: str) -> None:
    """L016 for an axis or a variant that there will not be: after hours of trials the statement would be "not shown"."""
    values = {name: list(given.values if isinstance(given, AxisSpec) else given) for name, given in sweep.axes.items()}
    for one in sweep.variant:
        for name, value in one.settings.items():
            values.setdefault(name, []).append(value)
    tables = {name: dict(statement.arguments[name]) for name in ("variant", "than", "where") if name in statement.arguments}
    axis = statement.arguments.get("axis")
    for name in (*([axis] if axis is not None else []), *(name for table in tables.values() for name in table)):
        if name not in values:
            said = f"{where}: statement: '{name}' does not vary; {did_you_mean(name, values)}"
            raise LaminarError("L016", said, hint="what varies: " + ", ".join(values))
    for argument, table in tables.items():
        made = [one.settings for one in sweep.variant]
        for name, value in table.items():
            if value not in values[name]:
                said = f"{where}: statement: {argument} has {name} = {value!r}, which is none of the values {values[name]}"
                raise LaminarError("L016", said, hint=f"{argument} = {{ {name} = {values[name][0]!r} }}")
        if made and not any(all(one.get(name) == value for name, value in table.items()) for one in made):
            raise LaminarError("L016", f"{where}: statement: no variant has {table}", hint="name the settings of one that is there")


def checked(sweep: Sweep, where: str = "the sweep") -> Sweep:
    """The same, or L016: what types cannot say. For sweeps made in Python too."""

    def refuse(said: str, hint: str) -> LaminarError:
        return LaminarError("L016", f"{where}: {said}", hint=hint)

    wanted = [*sweep.measures, *([sweep.halving.measure] if sweep.halving else []), *([sweep.search.measure] if sweep.search else [])]
    for measure in [*wanted, *(one.measure for one in sweep.published)]:
        if measure not in MEASURES:
            raise refuse(
                f"there is no measure '{measure}'; {did_you_mean(measure, MEASURES, limit=40)}", "measures: " + ", ".join(MEASURES)
            )
    if not sweep.measures:
        raise refuse("measures is empty", f"measures = {list(DEFAULT_MEASURES)}")
    if set(TO_TARGET) & set(wanted) and sweep.target is None:
        raise refuse("time to a target is measured, but there is no target", "target = 0.95")
    if sweep.target is not None and not 0 < sweep.target <= 1:
        raise refuse(f"target is {sweep.target}, but must be an accuracy: above 0 and at most 1", "target = 0.95")
    ways = [what for what, given in (("axes", sweep.axes), ("[[variant]]", sweep.variant), ("[search]", sweep.search)) if given]
    if len(ways) > 1:
        raise refuse(f"{' and '.join(ways)} both say what varies", "keep one of them")
    if sweep.search is not None and not sweep.search.ranges:
        raise refuse("[search.ranges] is empty, so there is nothing to search in", "lr = { low = 0.0001, high = 0.1, log = true }")
    if sweep.halving is not None and sweep.search is not None:
        raise refuse("[halving] and [search] both say which trials come next, and only the search would be heard", "keep one of them")
    if sweep.halving is not None and sweep.timed:
        raise refuse("timed = true with [halving], whose trials stop and go on", "remove one of them")
    if sweep.halving is not None and sweep.repeats > 1:
        raise refuse(f"repeats is {sweep.repeats} with [halving], which trains each variant once", "repeats = 1")
    if sweep.halving is not None and sweep.halving.measure not in AT_RUNGS:
        raise refuse(
            f"halving goes by {sweep.halving.measure}, which is not known of a trial before its end",
            'measure = "loss", or another of ' + ", ".join(AT_RUNGS),
        )
    for way, one in (("[halving]", sweep.halving), ("[search]", sweep.search)):
        if one is not None and one.measure in AGAINST_OTHERS:
            raise refuse(f"{way} goes by {one.measure}, which is against another variant's trials", 'measure = "samples_per_second"')
    if doubled := next((one for i, one in enumerate(sweep.measures) if one in sweep.measures[:i]), None):
        raise refuse(f"measures has {doubled} twice", "remove one of them")
    for statement in sweep.statement:
        check_rule(statement)
    for name, values in sweep.axes.items():
        listed = values.values if isinstance(values, AxisSpec) else values
        for value in listed:
            if isinstance(value, float) and not math.isfinite(value):
                raise refuse(f"axis {name} has the value {value}, but must have finite numbers", "write a number")
    return sweep


def goal_of(measure: str, goal: Goal | None) -> Goal:
    return goal or ("most" if MEASURES[measure].better == "more" else "least")


def _explained(error: msgspec.ValidationError, text: str, path: Path) -> LaminarError:
    said, _, at = str(error).partition(" - at `$")
    steps = [name or int(index) for name, index in re.findall(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]", at.rstrip("`"))]
    hint = f"{docs('ref-sweep-file.md')} lists every key"
    if unknown := re.search(r"unknown field `([^`]+)`", said):
        word, valid = unknown[1], _fields(steps)
        best = nearest(word, valid)
        return LaminarError(
            "L016",
            f"{path.name}:{line_of(text, [*steps, word]) or '?'}: unknown key '{word}'; {did_you_mean(word, valid, limit=40)}",
            hint=f"write '{best}' instead" if best else hint,
        )
    where = f"{path.name}:{line_of(text, steps) or 1}"
    if missing := re.search(r"missing required field `([^`]+)`", said):
        return LaminarError("L016", f"{where}: there is no '{missing[1]}', which is needed", hint=f"add {missing[1]} = …; {hint}")
    return LaminarError("L016", f"{where}: {'.'.join(map(str, steps)) or 'the file'}: {in_toml_words(said)}", hint=hint)


def _fields(steps: list[str | int]) -> list[str]:
    tables: dict[str, type[msgspec.Struct]] = {
        "variant": VariantSpec,
        "published": PublishedSpec,
        "budget": Budget,
        "halving": Halving,
        "search": Range if len(steps) > 1 else Search,
        "statement": Statement,
        "axes": AxisSpec,
    }
    kind = tables.get(str(steps[0]), Sweep) if steps else Sweep
    return [field.encode_name for field in msgspec.structs.fields(kind)]
