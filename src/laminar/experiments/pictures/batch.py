"""Steps to the target against the batch, both by factors, with the fitted law and the critical batch (fit.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laminar.core.figures import number
from laminar.experiments.extras import samples_per_step
from laminar.experiments.fit import CriticalBatch, critical_batch
from laminar.experiments.pictures.chosen import spread
from laminar.experiments.pictures.palette import TOKENS, pen
from laminar.experiments.pictures.scales import counts
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Axis
from laminar.experiments.view import View

LINES = 6
CURVE = 60  # points of the fitted law


@dataclass(frozen=True)
class Spot:
    batch: float  # as it was asked for
    samples: float  # that its steps really had, on average
    steps: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    label: str
    spots: tuple[Spot, ...]
    fit: CriticalBatch | None


def lines(view: View, axis: Axis) -> list[Line]:
    """One for each way to set the other axes; of variants that reached the target."""
    lines = []
    for label, some in view.lines(axis.name).items():
        spots = []
        for one in some:
            figure = view.figure(one.id, "steps_to_target")
            batch = view.value(one, axis)
            if figure is None or figure.median <= 0 or not isinstance(batch, int | float) or batch <= 0:
                continue
            low, high = (figure.interval.low, figure.interval.high) if figure.interval else (None, None)
            samples = samples_per_step(view.trials_of(one.id), batch)
            spots.append(Spot(float(batch), round(samples), figure.median, low, high))
        if spots:
            spots.sort(key=lambda spot: spot.samples)
            lines.append(Line(label, tuple(spots), critical_batch([(spot.samples, spot.steps) for spot in spots])))
    return lines


def picture(view: View) -> Picture | None:
    axis = view.batch_axis
    if axis is None:
        return None
    found = lines(view, axis)
    if max((len(line.spots) for line in found), default=0) < 2:
        return None
    caption = (
        f"Steps to an accuracy of {view.description.target or 0:g} against the batch. "
        "On the dotted line, twice the batch needs half the steps; "
        "where the curve is flat, a larger batch saves nothing. " + " ".join(_words(line) for line in found if line.fit)
    )
    return Picture(
        "steps-against-batch", "Steps to the target against the batch", caption.strip(), lambda sheet: _draw(sheet, found), Size(4.2, 4.2)
    )


def _words(line: Line) -> str:
    assert line.fit is not None
    name = f"{line.label}: " if line.label else ""
    where = "" if line.fit.found else ", which lies outside of what was tried, so it is a guess"
    return f"{name}the critical batch is about {_round(line.fit.b_crit):,}{where}."


def _round(value: float) -> int:
    """Two digits: the fit knows no more."""
    return int(float(f"{value:.2g}"))


def _draw(sheet: Sheet, found: Sequence[Line]) -> None:
    (axes,) = sheet.axes()
    sizes = sorted({spot.samples for line in found for spot in line.spots})
    top = max(line.spots[0].steps * line.spots[0].samples for line in found) / sizes[0]
    axes.plot(sizes, [top * sizes[0] / one for one in sizes], color=TOKENS["p-dim"], linestyle=(0, (1, 2)), linewidth=1.1, label="perfect")
    for place, line in enumerate(spread(found, LINES)):
        style = pen(place)
        told = [f"{line.label or 'measured'}\nbatch {spot.batch:,g}: {number(spot.steps)} steps" for spot in line.spots]
        for spot in line.spots:
            if spot.low is not None and spot.high is not None:
                axes.plot([spot.samples] * 2, [spot.low, spot.high], color=style.colour, linewidth=1.2, marker="_", markersize=6)
        label = clean(line.label or "measured", 26 if sheet.narrow else 40)
        plain = "solid" if line.fit is None else ""
        sheet.line(
            axes, [s.samples for s in line.spots], [s.steps for s in line.spots], style, label, told, linestyle=plain, markersize=6.5
        )
        if line.fit is not None:
            _law(axes, line.fit, sizes, style.colour, place)
    axes.set_xscale("log")
    axes.set_yscale("log")
    counts(axes.xaxis, sizes, 5 if sheet.narrow else 12)
    _plain(axes)
    axes.grid(True, which="both", axis="y")
    axes.grid(True, axis="x")
    axes.set_xlabel("samples per step")
    axes.set_ylabel("steps to the target")
    sheet.legend(axes, least=1)


def _law(axes: object, fit: CriticalBatch, sizes: Sequence[float], colour: str, place: int) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    xs = [math.exp(low + (high - low) * i / (CURVE - 1)) for i in range(CURVE)]
    axes.plot(xs, [fit.steps(x) for x in xs], color=colour, linewidth=1.5)
    if sizes[0] <= fit.b_crit <= sizes[-1]:
        at = fit.steps(fit.b_crit)
        axes.plot([fit.b_crit] * 2, [0, at], color=colour, linewidth=1, linestyle=(0, (3, 2)))
        axes.annotate(
            f"B_crit {_round(fit.b_crit):,}",
            (fit.b_crit, 0.02 + 0.06 * place),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
            color=TOKENS["p-ink"],  # colours of lines are too light for small letters; the dashes have its own
            weight="bold",
            bbox={"boxstyle": "square,pad=0.15", "facecolor": TOKENS["p-card"], "edgecolor": "none"},  # other lines go behind it
            zorder=5,
        )


def _plain(axes: object) -> None:
    """Numbers on the scale of steps as people write them."""
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    assert isinstance(axes, Axes)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
