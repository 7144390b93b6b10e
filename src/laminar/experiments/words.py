"""Words: figures and verdicts as reports say them. Pure."""

from __future__ import annotations

import math

from laminar.core.figures import number
from laminar.experiments.intervals import ENOUGH, Interval
from laminar.experiments.measures import MEASURES
from laminar.experiments.results import Cell, Figure

_SHORT = {
    "seconds": "time of training",
    "overfit": "over-fitting",
    "accuracy": "accuracy",
    "loss": "loss",
    "train_accuracy": "accuracy in training",
    "train_loss": "loss in training",
    "time_to_target": "time to target",
    "steps_to_target": "steps to target",
    "epochs_to_target": "epochs to target",
    "speedup": "speed-up",
    "test_seconds": "time of a test",
    "without_checkpoints": "time without checkpoints",
    "checkpoint_seconds": "time for checkpoints",
    "checkpoint_bytes": "bytes of a checkpoint",
    "bytes": "bytes sent",
    "staleness": "staleness",
    "layer_bytes": "bytes of the layer",
    "mae": "mean absolute error",
    "r2": "R²",
}


def measure_title(measure: str) -> str:
    """Short enough for the head of a column."""
    return _SHORT.get(measure) or (MEASURES[measure].words if measure in MEASURES else measure.replace("_", " "))


def percent(value: float | None) -> str:
    """`103.5 %`, `1,739 %`."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}\u00a0%"


def amount(value: float | None, measure: str) -> str:
    """With its unit: `1.9153 s`, `12.4 MB`."""
    if value is None or not math.isfinite(value):
        return "-"
    unit = MEASURES[measure].unit if measure in MEASURES else ""
    if unit == "B":
        for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if abs(value) >= size:
                return f"{value / size:,.1f}\u00a0{name}"
        return f"{value:,.0f}\u00a0B"
    if unit == "s":
        return seconds(value)
    return f"{number(value)}{unit if unit == '/s' else ''}"


def plain(value: Cell) -> str:
    """A cell of a table besides. Epochs and workers are counted: 1, not 1.0000."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else "-" if value is None else number(value)


def seconds(value: float) -> str:
    if abs(value) < 0.1:
        return f"{1000 * value:.1f}\u00a0ms"
    return f"{value:.2f}\u00a0s" if abs(value) < 100 else f"{value:,.0f}\u00a0s" if abs(value) < 600 else f"{value / 60:,.1f}\u00a0min"


def interval(found: Interval | None, measure: str | None = None) -> str:
    """`98.2 to 104.1 %`, with its level where that is below 90 %, which decides nothing; empty where there is none."""
    if found is None or not (math.isfinite(found.low) and math.isfinite(found.high)):
        return ""
    low, high = (percent(end) if measure is None else amount(end, measure) for end in (found.low, found.high))
    unit = high.rpartition("\u00a0")[2]
    low = low.removesuffix(f"\u00a0{unit}") if "\u00a0" in high else low
    return f"{low} to {high}" + ("" if found.level >= ENOUGH - 1e-9 else f" (at {100 * found.level:.0f} %)")


def verdict_words(figure: Figure) -> str:
    """What is to be thought of it, for somebody who reads nothing else."""
    return {
        "benchmark": "the benchmark",
        "more": "more than the benchmark",
        "less": "less than the benchmark",
        "inside the noise": "inside the noise",
        "too few repeats": "too few repeats to tell",
    }[figure.verdict]


def is_better(figure: Figure, measure: str) -> bool | None:
    """None where it is not known, or the measure has no better and worse."""
    if figure.verdict not in ("more", "less") or measure not in MEASURES:
        return None
    return figure.verdict == MEASURES[measure].better
