"""Accuracy against time: for each variant the median of its trials, and a band from the least to the most of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from laminar.core.figures import many, number
from laminar.experiments.pictures.chosen import Chosen, choose
from laminar.experiments.pictures.palette import REST, TOKENS
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Point, Trial
from laminar.experiments.view import View

FAR: Final = 8.0  # times as long
# what is drawn: the first of these that trials have; its field, its name, and that of the same in training
_KINDS: Final = (
    ("test_accuracy", "accuracy", "accuracy"),
    ("test_loss", "loss", "loss"),
    ("accuracy", "accuracy in training", ""),
    ("loss", "loss in training", ""),
)


@dataclass(frozen=True)
class Bundle:
    """The curves of one variant's trials as one: medians, and the least and most."""

    label: str
    seconds: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    epochs: tuple[int, ...]
    trials: int


def bundle(label: str, trials: Sequence[Trial], value: Callable[[Point], float | None]) -> Bundle | None:
    """By epoch, as far as at least half of the trials went. None where there is nothing to draw."""
    by_epoch: dict[int, list[tuple[float, float]]] = {}
    for trial in trials:
        for point in trial.curve:
            found = value(point)
            if found is not None and math.isfinite(found) and math.isfinite(point.seconds):
                by_epoch.setdefault(point.epoch, []).append((point.seconds, found))
    most = max((len(found) for found in by_epoch.values()), default=0)
    epochs = [epoch for epoch in sorted(by_epoch) if 2 * len(by_epoch[epoch]) >= most]
    if not epochs:
        return None
    columns = [list(zip(*by_epoch[epoch], strict=True)) for epoch in epochs]
    return Bundle(
        label,
        tuple(median(seconds) for seconds, _ in columns),
        tuple(median(values) for _, values in columns),
        tuple(min(values) for _, values in columns),
        tuple(max(values) for _, values in columns),
        tuple(epochs),
        most,
    )


def kind_of_curve(view: View) -> tuple[str, str, str] | None:
    points = [point for trial in view.done for point in trial.curve]
    return next((kind for kind in _KINDS if any(_finite(getattr(point, kind[0])) for point in points)), None)


def _apart(bundles: Iterable[Bundle]) -> bool:
    """Do some take so much longer than others that these would be squeezed into a corner?"""
    ends = [one.seconds[-1] for one in bundles]
    starts = [one.seconds[0] for one in bundles]
    return min(starts) > 0 and max(ends) > FAR * min(ends)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def picture(view: View) -> Picture | None:
    """None where no trial has a curve of two points."""
    kind = kind_of_curve(view)
    if kind is None:
        return None
    field, words, _ = kind
    bundles = {
        one.id: found
        for one in view.variants
        if (found := bundle(one.label, view.trials_of(one.id), lambda point: getattr(point, field))) is not None
    }
    if max((len(one.epochs) for one in bundles.values()), default=0) < 2:
        return None
    chosen = choose([one for one in view.variants if one.id in bundles], view.benchmark.id)
    several = max(one.trials for one in bundles.values()) > 1
    where = "on data it has not seen" if field.startswith("test_") else "on the data it learns from"
    caption = (
        f"{words.capitalize()} {where} against seconds of training, after each epoch."
        + (" Lines are medians of the trials, bands reach from the least to the most of them." if several else " One trial each.")
        + (f" The target is {view.description.target:g}." if view.description.target and "accuracy" in field else "")
        + (" Time runs by factors." if _apart(bundles.values()) else "")
        + chosen.rest_words()
    )
    name = f"{'accuracy' if 'accuracy' in field else 'loss'}-against-time"
    return Picture(
        name, f"{words.capitalize()} against time", caption, lambda sheet: _draw(sheet, view, chosen, bundles, field, words), Size(4.0, 4.2)
    )


def _draw(sheet: Sheet, view: View, chosen: Chosen, bundles: dict[str, Bundle], field: str, words: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    (axes,) = sheet.axes()
    for one in chosen.rest:
        axes.plot(bundles[one.id].seconds, bundles[one.id].middle, color=REST.colour, linewidth=REST.width, zorder=1)
    for one, pen in chosen.drawn:
        found = bundles[one.id]
        if found.trials > 1:
            axes.fill_between(found.seconds, found.low, found.high, color=pen.colour, alpha=0.13, linewidth=0)
        label = clean(found.label, 26 if sheet.narrow else 40)
        told = [
            f"{found.label}\nepoch {epoch}, {number(seconds)} s: {number(value)}"
            + (f"\n{number(low)} to {number(high)} in {many(found.trials, 'trial')}" if found.trials > 1 else "")
            for epoch, seconds, value, low, high in zip(found.epochs, found.seconds, found.middle, found.low, found.high, strict=True)
        ]
        sheet.line(axes, found.seconds, found.middle, pen, label, told)
    target = view.description.target
    if target is not None and "accuracy" in field:
        axes.axhline(target, color=TOKENS["p-dim"], linewidth=1, linestyle=(0, (1, 2)))
        axes.annotate(
            f"target {target:g}",
            (0.995, target),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=TOKENS["p-dim"],
        )
    if _apart(bundles.values()):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
    axes.grid(True)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel(words)
    sheet.legend(axes)
