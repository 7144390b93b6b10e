"""Descriptions and trials out of thin air."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laminar.experiments.record import Axis, Description, Point, Trial
from laminar.experiments.variants import variant_of


def description(axes: Mapping[str, Sequence[Any]] | None = None, **more: Any) -> Description:
    """One axis, `workers`, unless said otherwise; the first variant is the benchmark."""
    import itertools

    axes = axes or {"workers": [1, 2, 3]}
    variants = [variant_of(dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())]
    given: dict[str, Any] = {
        "name": "made-up",
        "title": "Made up",
        "question": "",
        "stack": "digits",
        "layer": "head",
        "axes": tuple(Axis(name=name, values=tuple(values)) for name, values in axes.items()),
        "variants": tuple(variants),
        "benchmark": variants[0].id,
        "measures": ("seconds", "accuracy"),
        "repeats": 3,
    }
    return Description(**(given | more))


def trial(variant: str, repeat: int = 0, **more: Any) -> Trial:
    given: dict[str, Any] = {"variant": variant, "repeat": repeat, "outcome": "done", "started": 0.0, "wall": 1.0}
    return Trial(**(given | more))


def curve(*accuracies: float, seconds: float = 1.0) -> tuple[Point, ...]:
    """Epoch after epoch, each so many seconds and ten steps."""
    return tuple(
        Point(epoch=i + 1, seconds=(i + 1) * seconds, step=10 * (i + 1), test_accuracy=value, accuracy=value + 0.1, test_loss=1 - value)
        for i, value in enumerate(accuracies)
    )
