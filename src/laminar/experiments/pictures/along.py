"""A measure along an axis of numbers: neurons, epochs, samples … in per cent of the benchmark, ours and the published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from laminar.experiments.pictures.chosen import spread
from laminar.experiments.pictures.palette import SERIES_LIGHT, TOKENS, pen
from laminar.experiments.pictures.scales import by_factors, counts
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Axis
from laminar.experiments.view import View, ends
from laminar.experiments.words import measure_title, percent, verdict_words

LINES: Final = 6
PANELS: Final = 3


@dataclass(frozen=True)
class Spot:
    at: float
    percent: float
    low: float | None
    high: float | None
    published: float | None
    told: str


@dataclass(frozen=True)
class Line:
    label: str  # how the other axes are set; nothing where there is one axis
    spots: tuple[Spot, ...]


def lines(view: View, axis: Axis, measure: str) -> list[Line]:
    """None of several variants at one place: such a line goes along another axis."""
    found = []
    for label, some in view.lines(axis.name).items():
        spots = []
        for one in some:
            figure = view.figure(one.id, measure)
            at = view.value(one, axis)
            if figure is None or figure.percent is None or not isinstance(at, int | float) or isinstance(at, bool):
                continue
            low, high = ends(figure) or (None, None)
            told = f"{one.label}\n{measure_title(measure)}: {percent(figure.percent)}, {verdict_words(figure)}"
            spots.append(Spot(float(at), figure.percent, low, high, view.published_percent(one.id, measure), told))
        if spots and len({spot.at for spot in spots}) == len(spots):
            found.append(Line(label, tuple(sorted(spots, key=lambda spot: spot.at))))
    return found


def picture(view: View, axis: Axis) -> Picture | None:
    """None where fewer than three values were tried."""
    panels = {measure: found for measure in view.measures if (found := lines(view, axis, measure))}
    panels = {name: panels[name] for name in list(panels)[:PANELS]}
    if max((len({spot.at for line in found for spot in line.spots}) for found in panels.values()), default=0) < 3:
        return None
    paper = any(spot.published is not None for found in panels.values() for line in found for spot in line.spots)
    many = max(len(found) for found in panels.values())
    caption = (
        f"Measures along {clean(axis.name)}, in per cent of the benchmark, {view.benchmark.label}; bands are intervals."
        + (" Diamonds are the published figures." if paper else "")
        + (f" {LINES} of {many} ways to set the other axes are drawn." if many > LINES else "")
    )
    title = f"Along {clean(axis.name)}"
    return Picture(
        f"along-{_stem(axis.name)}", title, caption, lambda sheet: _draw(sheet, axis, panels), Size(3.5, 0.5 + 2.6 * len(panels))
    )


def _stem(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)[:40]


def _draw(sheet: Sheet, axis: Axis, panels: dict[str, list[Line]]) -> None:
    from matplotlib.ticker import FuncFormatter

    drawn = sheet.axes(len(panels))
    labels = list(dict.fromkeys(line.label for found in sorted(panels.values(), key=len, reverse=True) for line in found))
    pens = {label: place for place, label in enumerate(spread(labels, LINES))}  # a line looks the same in every panel
    for axes, (measure, found) in zip(drawn, panels.items(), strict=True):
        axes.axhline(100, color=TOKENS["p-ink"], linewidth=0.9, linestyle=(0, (3, 2)))
        for line in found:
            if line.label in pens:
                _line(sheet, axes, line, pens[line.label])
        values = [spot.at for line in found for spot in line.spots]
        counts(axes.xaxis, values, 5 if len(panels) > 1 or sheet.narrow else 9)
        heights = [spot.percent for line in found for spot in line.spots]
        if by_factors(heights) and min(heights) > 0 and max(heights) / min(heights) > 12:
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _place: ""))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g} %"))
        axes.grid(True)
        axes.set_title(measure_title(measure))
        axes.set_xlabel(clean(f"{axis.name} ({axis.unit})" if axis.unit else axis.name))
    sheet.legend(*drawn, order=[_label(sheet, one) for one in pens])


def _label(sheet: Sheet, label: str) -> str:
    return clean(label or "measured here", 26 if sheet.narrow else 40)


def _line(sheet: Sheet, axes: object, line: Line, place: int) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    style = pen(place)
    known = [spot for spot in line.spots if spot.low is not None and spot.high is not None]
    axes.fill_between(
        [s.at for s in known], [s.low or 0 for s in known], [s.high or 0 for s in known], color=style.colour, alpha=0.15, linewidth=0
    )
    label = _label(sheet, line.label)
    sheet.line(axes, [s.at for s in line.spots], [s.percent for s in line.spots], style, label, [s.told for s in line.spots])
    paper: Sequence[Spot] = [spot for spot in line.spots if spot.published is not None]
    if paper:
        heights = [spot.published or 0 for spot in paper]
        colour = SERIES_LIGHT[1] if not line.label else style.colour
        marks: dict[str, Any] = {
            "marker": "D",
            "markersize": 5.5,
            "color": TOKENS["p-card"],
            "markeredgecolor": colour,
            "markeredgewidth": 1.6,
        }
        axes.plot([spot.at for spot in paper], heights, linestyle="", label="published" if place == 0 else None, **marks)
        for spot, height in zip(paper, heights, strict=True):
            sheet.tell(axes, spot.at, height, f"published: {percent(height)}")
