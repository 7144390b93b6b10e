"""Experiments: what the trials of each say, with curves and the pictures of its report. Tables, intervals and verdicts are those of
experiments/statistics.py, pictures those of experiments/pictures."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from laminar.dashboard.answer import get
from laminar.dashboard.context import Context
from laminar.dashboard.report_pictures import Drawing, announced, missing
from laminar.experiments.files import EXPERIMENT, folder_of, names
from laminar.experiments.listing import listed, read_view
from laminar.experiments.measures import MEASURES
from laminar.experiments.record import Point, Trial
from laminar.experiments.results import Summary
from laminar.experiments.view import View
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


def routes(context: Context) -> list[Route]:
    known: dict[str, tuple[object, View]] = {}
    lock, drawing = threading.Lock(), Drawing()

    def read(store: Store, name: str) -> View:
        seen = _seen(store, name)
        with lock:
            before = known.get(name)
        if before is None or before[0] != seen:
            before = (seen, read_view(store, name))
            with lock:
                known[name] = before
                while len(known) > KEPT:
                    del known[next(iter(known))]
        return before[1]

    def every(request: Request) -> dict[str, Any]:  # noqa: ARG001
        store = context.store()
        return {"experiments": [listed(name, lambda name: read(store, name)) for name in reversed(names(store))]}

    def one(request: Request) -> dict[str, Any]:
        store = context.store()
        found = read(store, request.query_params.get("name", ""))
        words = {name: MEASURES[name] for name in found.measures if name in MEASURES}
        return {
            "summary": found.summary,
            "description": found.description,
            "measures": words,
            "curves": curves(found.summary, found.trials),
            "newest": max((trial.started + trial.wall for trial in found.trials), default=None),
            "pictures": announced(found, store),
            "not_drawn": missing(),
        }

    def drawn(request: Request) -> dict[str, Any]:
        """The pictures of its report. Takes seconds of a core, so a page asks when that is in nobody's way."""
        name, store = request.query_params.get("name", ""), context.store()
        read(store, name)  # L018 where there is none
        narrow = request.query_params.get("narrow") == "1"
        return {"pictures": drawing.pictures(str(context.start), name, _seen(store, name), narrow=narrow)}

    return [get("/api/experiments", every), get("/api/experiments/one", one), get("/api/experiments/pictures", drawn)]


def _seen(store: Store, name: str) -> object:
    found = []
    for file in (EXPERIMENT, TRIALS):
        try:
            facts = (folder_of(store, name) / file).stat()
            found.append((facts.st_mtime_ns, facts.st_size, facts.st_ino))
        except FileNotFoundError:
            found.append((0, 0, 0))
    return store.root, tuple(found)


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
