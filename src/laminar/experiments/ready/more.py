"""What some ready experiments show besides the table of all: epochs beside published ones, efficiency, and the critical batch. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from laminar.experiments.fit import critical_batch, strong_scaling, weak_scaling
from laminar.experiments.measures import measure_of
from laminar.experiments.order import standing
from laminar.experiments.ready.form import Ready
from laminar.experiments.record import Description, Point, Trial

Cell = float | int | str | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """None: not known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows]}


def tables(ready: Ready, description: Description, trials: Sequence[Trial]) -> list[Table]:
    done = [one for one in standing(trials).values() if one.outcome == "done" and one.counted]
    found = [_epochs(ready, [one for one in done if one.variant == description.benchmark]) if ready.epochs else None]
    found += [_scaling(description, done)] if ready.name == "scaling" else []
    found += [_critical(description, done)] if ready.name == "batch" else []
    return [one for one in found if one is not None and one.rows]


def _epochs(ready: Ready, trials: list[Trial]) -> Table:
    """Of the benchmark, epoch by epoch: the middle one of its trials."""
    rows: list[tuple[Cell, ...]] = []
    for number in range(max((len(one.curve) for one in trials), default=0)):
        points = [one.curve[number] for one in trials if len(one.curve) > number]
        spent = [
            one.curve[number].seconds - (one.curve[number - 1].seconds if number else 0.0) for one in trials if len(one.curve) > number
        ]
        said = ready.epochs[number] if number < len(ready.epochs) else {}
        ours = _middle(points, "accuracy"), said.get("train_accuracy"), _middle(points, "test_accuracy")
        rows.append((number + 1, *ours, statistics.median(spent), said.get("seconds")))
    columns = ("epoch", "in training", "published", "held out", "seconds", "published seconds")
    return Table(title="Accuracy and time, epoch by epoch", columns=columns, rows=tuple(rows))


def _middle(points: Sequence[Point], name: str) -> float | None:
    known = [value for one in points if (value := getattr(one, name)) is not None]
    return statistics.median(known) if known else None


def _scaling(description: Description, done: list[Trial]) -> Table:
    """An epoch has the same samples whatever the batch; with n times the batch it has an n-th of the steps, so weak work is n epochs."""
    strong: dict[int, float] = {}
    weak: dict[int, float] = {}
    batch = next(one for one in description.variants if one.id == description.benchmark).settings["batch"]
    for variant in description.variants:
        workers = variant.settings["workers"]
        seconds = _of(done, variant.id, "seconds_per_epoch", description.target)
        if seconds is not None and variant.settings["batch"] == batch:
            strong[workers] = seconds
        if seconds is not None and variant.settings["batch"] == workers * batch:
            weak[workers] = seconds * workers
    rows = [("strong", one.workers, one.speed_up, one.efficiency) for one in strong_scaling(strong)] if 1 in strong else []
    rows += [("weak", one.workers, one.speed_up, one.efficiency) for one in weak_scaling(weak)] if 1 in weak else []
    return Table(title="Scaling against one worker; 1 is ideal", columns=("scaling", "workers", "speed-up", "efficiency"), rows=tuple(rows))


def _critical(description: Description, done: list[Trial]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(one.settings["optimizer"] for one in description.variants):
        some = [one for one in description.variants if one.settings["optimizer"] == name]
        known = [(one.settings["batch"], _of(done, one.id, "steps_to_target", description.target)) for one in some]
        points = [(float(batch), steps) for batch, steps in known if steps is not None]
        law = critical_batch(points)
        if law is not None:
            rows.append((name, law.points, law.s_min, law.b_crit, law.error, "yes" if law.found else "no, beyond the batches measured"))
        else:
            rows.append((name, len(points), None, None, None, "too few batches reached the target"))
    columns = ("optimizer", "batches", "S_min", "B_crit", "rms error of ln steps", "found")
    return Table(title="Fitted: steps(B) = S_min (1 + B_crit / B)", columns=columns, rows=tuple(rows))


def _of(done: list[Trial], variant: str, measure: str, target: float | None) -> float | None:
    known = [value for one in done if one.variant == variant and (value := measure_of(one, measure, target)) is not None]
    return statistics.median(known) if known else None
