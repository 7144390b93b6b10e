"""Experiments: what the trials of each say, with curves. Tables, intervals and verdicts are those of experiments/statistics.py."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.context import Context
from laminar.experiments.files import EXPERIMENT, folder_of, names, read_description, read_trials
from laminar.experiments.measures import MEASURES
from laminar.experiments.record import Description, Point, Trial
from laminar.experiments.results import Summary
from laminar.experiments.statistics import summary
from laminar.store.store import Store
from laminar.store.trial_layers import TRIALS

POINTS: Final = 200  # of a curve
KEPT: Final = 64  # experiments whose summaries are remembered
FIGURES: Final = ("test_accuracy", "test_loss", "accuracy", "loss")


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Of one variant: the middle of its counted trials, epoch by epoch."""

    variant: str
    label: str
    trials: int
    epochs: list[int]
    seconds: list[float]
    figures: dict[str, list[float | None]]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """`error`: it cannot be read."""

    name: str
    title: str = ""
    question: str = ""
    created: float = 0.0
    planned: int = 0
    done: int = 0
    failed: int = 0
    error: str = ""


def routes(context: Context) -> list[Route]:
    known: dict[str, tuple[object, Description, Summary, list[Trial]]] = {}
    lock = threading.Lock()

    def read(store: Store, name: str) -> tuple[Description, Summary, list[Trial]]:
        seen = _seen(store, name)
        with lock:
            before = known.get(name)
        if before is None or before[0] != seen:
            description, trials = read_description(store, name), read_trials(store, name)
            before = (seen, description, summary(description, trials), trials)
            with lock:
                known[name] = before
                while len(known) > KEPT:
                    del known[next(iter(known))]
        return before[1:]

    def listed(request: Request) -> dict[str, Any]:  # noqa: ARG001
        store = context.store()
        return {"experiments": [_listed(name, lambda name: read(store, name)) for name in reversed(names(store))]}

    def one(request: Request) -> dict[str, Any]:
        description, told, trials = read(context.store(), request.query_params.get("name", ""))
        words = {name: MEASURES[name] for name in told.measures if name in MEASURES}
        return {
            "summary": told,
            "description": description,
            "measures": words,
            "curves": curves(told, trials),
            "newest": max((trial.started + trial.wall for trial in trials), default=None),
        }

    return [get("/api/experiments", listed), get("/api/experiments/one", one)]


def _seen(store: Store, name: str) -> object:
    found = []
    for file in (EXPERIMENT, TRIALS):
        try:
            facts = (folder_of(store, name) / file).stat()
            found.append((facts.st_mtime_ns, facts.st_size, facts.st_ino))
        except FileNotFoundError:
            found.append((0, 0, 0))
    return store.root, tuple(found)


def _listed(name: str, read: Any) -> Listed:
    try:
        description, told, _ = read(name)
    except LaminarError as error:
        return Listed(name=name, error=error.message)
    return Listed(
        name=name,
        title=description.title,
        question=description.question,
        created=description.created,
        planned=told.planned,
        done=told.done,
        failed=len(told.failures),
    )


def curves(told: Summary, trials: Sequence[Trial]) -> list[Curve]:
    """Of every variant with counted trials that have one."""
    found = []
    counted = [trial for trial in trials if trial.outcome == "done" and trial.counted and trial.curve]
    for row in told.rows:
        some = [trial.curve for trial in counted if trial.variant == row.variant]
        if some:
            found.append(_curve(row.variant, row.label, some))
    return found


def _curve(variant: str, label: str, some: Sequence[Sequence[Point]]) -> Curve:
    """As long as the shortest: beyond it the middle would be of others."""
    length = min(len(one) for one in some)
    places = range(length) if length <= POINTS else sorted({round(i * (length - 1) / (POINTS - 1)) for i in range(POINTS)})
    figures = {name: [_middle([getattr(one[place], name) for one in some]) for place in places] for name in FIGURES}
    return Curve(
        variant=variant,
        label=label,
        trials=len(some),
        epochs=[some[0][place].epoch for place in places],
        seconds=[statistics.median(one[place].seconds for one in some) for place in places],
        figures={name: values for name, values in figures.items() if any(value is not None for value in values)},
    )


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
