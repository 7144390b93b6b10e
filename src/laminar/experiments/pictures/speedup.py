"""Speed-up against workers, with the line of what would be ideal: so many times as fast as there are times as many workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laminar.experiments.pictures.palette import TOKENS, pen
from laminar.experiments.pictures.scales import counts
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Axis
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


def lines(view: View, axis: Axis, measure: str) -> list[Line]:
    """One for each way to set the other axes. How many times as fast as the benchmark, which is what the tables say too."""
    more_is_better = measure == "samples_per_second"
    found: dict[str, list[Speed]] = {}
    for one in view.variants:
        figure = view.figure(one.id, measure)
        workers = view.value(one, axis)
        if figure is None or figure.percent is None or not figure.percent > 0 or not isinstance(workers, int | float):
            continue
        times = _times(figure.percent, more_is_better)
        turned = sorted(one for one in (_times(end, more_is_better) for end in ends(figure) or ()) if one is not None)
        low, high = turned if len(turned) == 2 else (None, None)
        found.setdefault(view.others(one, axis), []).append(Speed(float(workers), times or 0.0, low, high))
    return [Line(label, tuple(sorted(speeds, key=lambda one: one.workers))) for label, speeds in found.items()]


def _times(percent: float | None, more_is_better: bool) -> float | None:
    if percent is None or not math.isfinite(percent) or percent <= 0:
        return None
    return percent / 100 if more_is_better else 100 / percent


def picture(view: View) -> Picture | None:
    axis = view.workers_axis
    measure = next((name for name in SPEEDS if name in view.measures), None)
    if axis is None or measure is None:
        return None
    found = [one for one in lines(view, axis, measure) if one.speeds]
    if len({speed.workers for one in found for speed in one.speeds}) < 2:
        return None
    base = view.value(view.benchmark, axis)
    best = max((speed for one in found for speed in one.speeds), key=lambda one: one.times)
    caption = (
        f"How many times as fast as the benchmark, {view.benchmark.label}, by {measure_title(measure)}; whiskers are intervals. "
        f"On the dashed line, twice the {axis.name} take half the time. "
        f"The best is {best.times:.2f} times with {best.workers:g} {axis.name}"
        + (f": an efficiency of {100 * best.times * base / best.workers:.0f} %." if isinstance(base, int | float) and best.workers else ".")
    )
    title = f"Speed-up against {axis.name}"
    return Picture("speed-up", title, caption, lambda sheet: _draw(sheet, axis.name, found, base), Size(3.8, 3.8))


def _draw(sheet: Sheet, name: str, found: Sequence[Line], base: object) -> None:
    (axes,) = sheet.axes()
    workers = sorted({speed.workers for one in found for speed in one.speeds})
    if isinstance(base, int | float) and base > 0:
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
