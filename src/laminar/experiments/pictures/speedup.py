"""Speed-up against workers, with the line of what would be ideal: so many times as fast as there are times as many workers.

Where workers and their threads both vary, it is against the cores that they would keep busy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laminar.experiments.pictures.palette import TOKENS, pen
from laminar.experiments.pictures.scales import counts
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Axis, Variant
from laminar.experiments.view import View, ends
from laminar.experiments.words import measure_title

SPEEDS = ("samples_per_second", "seconds", "seconds_per_epoch", "wall")  # the first that was measured


@dataclass(frozen=True)
class Speed:
    workers: float
    times: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    label: str
    speeds: tuple[Speed, ...]


def lines(view: View, axes: Sequence[Axis], measure: str) -> list[Line]:
    """One for each way to set the other axes. How many times as fast as the benchmark, which is what the tables say too."""
    more_is_better = measure == "samples_per_second"
    found = []
    for label, some in view.lines(*(axis.name for axis in axes)).items():
        speeds = []
        for one in some:
            figure, workers = view.figure(one.id, measure), _product(view, one, axes)
            if figure is None or figure.percent is None or not figure.percent > 0 or workers is None:
                continue
            times = _times(figure.percent, more_is_better)
            turned = sorted(one for one in (_times(end, more_is_better) for end in ends(figure) or ()) if one is not None)
            low, high = turned if len(turned) == 2 else (None, None)
            speeds.append(Speed(workers, times or 0.0, low, high))
        if speeds:
            found.append(Line(label, tuple(sorted(speeds, key=lambda one: one.workers))))
    return found


def _product(view: View, variant: Variant, axes: Sequence[Axis]) -> float | None:
    values = [view.value(variant, axis) for axis in axes]
    return float(math.prod(values)) if all(isinstance(one, int | float) for one in values) else None


def _times(percent: float | None, more_is_better: bool) -> float | None:
    if percent is None or not math.isfinite(percent) or percent <= 0:
        return None
    return percent / 100 if more_is_better else 100 / percent


def picture(view: View) -> Picture | None:
    axes = view.workers_axes
    measure = next((name for name in SPEEDS if name in view.measures), None)
    if not axes or measure is None:
        return None
    found = lines(view, axes, measure)
    if len({speed.workers for one in found for speed in one.speeds}) < 2:
        return None
    base = _product(view, view.benchmark, axes)
    name = axes[0].name if len(axes) == 1 else "cores"
    best = max((speed for one in found for speed in one.speeds), key=lambda one: one.times)
    caption = (
        f"How many times as fast as the benchmark, {view.benchmark.label}, by {measure_title(measure)}; whiskers are intervals. "
        f"On the dashed line, twice the {name} take half the time. "
        + ("Cores are workers times threads. " if len(axes) > 1 else "")
        + (
            f"The best is {best.times:.2f} times with {best.workers:g} {name}"
            + (f": an efficiency of {100 * best.times * base / best.workers:.0f} %." if base and best.workers else ".")
            if best.times > 1
            else "None is faster than the benchmark."
        )
    )
    return Picture("speed-up", f"Speed-up against {name}", caption, lambda sheet: _draw(sheet, name, found, base), Size(3.8, 3.8))


def _draw(sheet: Sheet, name: str, found: Sequence[Line], base: float | None) -> None:
    (axes,) = sheet.axes()
    workers = sorted({speed.workers for one in found for speed in one.speeds})
    if base:
        axes.plot(workers, [one / base for one in workers], color=TOKENS["p-dim"], linestyle=(0, (4, 3)), linewidth=1.2, label="ideal")
    axes.axhline(1, color=TOKENS["p-dim"], linewidth=0.8, linestyle=(0, (1, 2)))
    for place, line in enumerate(found):
        style = pen(place)
        known = [one for one in line.speeds if one.low is not None and one.high is not None]
        for one in known:
            axes.plot([one.workers] * 2, [one.low or 0, one.high or 0], color=style.colour, linewidth=1.2, marker="_", markersize=6)
        told = [
            f"{line.label or 'measured'}\n{one.workers:g} {name}: {one.times:.2f} times as fast"
            + (f"\n{one.low:.2f} to {one.high:.2f}" if one.low is not None and one.high is not None else "")
            for one in line.speeds
        ]
        label = clean(line.label or "measured", 26 if sheet.narrow else 40)
        sheet.line(axes, [one.workers for one in line.speeds], [one.times for one in line.speeds], style, label, told)
    counts(axes.xaxis, workers)
    axes.set_ylim(bottom=0)
    axes.grid(True)
    axes.set_xlabel(clean(name))
    axes.set_ylabel("times as fast as the benchmark")
    sheet.legend(axes, least=1)
