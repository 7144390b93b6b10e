"""Bars in per cent of the benchmark, with intervals, and the published figure beside ours. One panel for each measure.

They begin at 100 %, not at nothing: what matters is how far a variant is from the benchmark, and 99.3 % would look like 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from laminar.experiments.pictures.chosen import spread
from laminar.experiments.pictures.palette import SERIES_LIGHT, TOKENS
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.results import Verdict
from laminar.experiments.view import View, ends
from laminar.experiments.words import measure_title, percent, verdict_words

MOST: Final = 24  # bars in a panel
PANELS: Final = 3  # of measures in one picture
SPAN: Final = 20.0  # times the shortest bar: beyond it the scale is logarithmic


@dataclass(frozen=True)
class Bar:
    label: str
    percent: float
    low: float | None
    high: float | None
    benchmark: bool
    verdict: Verdict  # "more" and "less" are beyond the noise
    told: str
    published: float | None = None


def panels(view: View) -> dict[str, list[Bar]]:
    """Measure: its bars, where one other than the benchmark's is known."""
    found: dict[str, list[Bar]] = {}
    for measure in view.measures:
        bars = []
        for one in view.variants:
            figure = view.figure(one.id, measure)
            if figure is None or figure.percent is None or not math.isfinite(figure.percent):
                continue
            low, high = ends(figure) or (None, None)
            paper = view.published_percent(one.id, measure)
            told = f"{one.label}\n{measure_title(measure)}: {percent(figure.percent)}, {verdict_words(figure)}"
            told += f"\npublished: {percent(paper)}" if paper is not None else ""
            bars.append(Bar(one.label, figure.percent, low, high, one.id == view.benchmark.id, figure.verdict, told, paper))
        if any(not bar.benchmark for bar in bars):
            found[measure] = bars
    return found


def pictures(view: View) -> list[Picture]:
    found = panels(view)
    names = list(found)
    each = max(1, -(-len(names) // max(1, -(-len(names) // PANELS))))  # as many in each picture, so that none is left alone
    groups = [names[i : i + each] for i in range(0, len(names), each)]
    return [_picture(view, {name: found[name] for name in group}, number) for number, group in enumerate(groups, 1)]


def _picture(view: View, group: dict[str, list[Bar]], number: int) -> Picture:
    rows = min(MOST, max(map(len, group.values())))
    left_out = max(map(len, group.values())) - rows
    paper = any(bar.published is not None for bars in group.values() for bar in bars)
    caption = (
        f"How far each variant is from the benchmark, {view.benchmark.label}, which is the line at 100 %; "
        "whiskers are intervals."
        + _unsure(bar.verdict for bars in group.values() for bar in bars)
        + (" Diamonds are the published figures." if paper else "")
        + (f" {left_out} variants of {rows + left_out} are left out here; the tables have them all." if left_out else "")
    )
    size = Size(1.35 + 0.27 * rows, (0.95 + 0.27 * rows) * len(group) + 0.2)
    name = "per-cent-of-benchmark" + (f"-{number}" if number > 1 else "")
    title = "In per cent of the benchmark: " + ", ".join(measure_title(name) for name in group)
    return Picture(name, title, caption, lambda sheet: _draw(sheet, group), size)


def _unsure(verdicts: Iterable[Verdict]) -> str:
    """What is pale because it is noise, and what is empty because nobody can tell."""
    known = set(verdicts)
    said = " Pale bars differ by no more than noise." if "inside the noise" in known else ""
    return said + (" Empty bars have too few repeats to tell a difference from noise." if "too few repeats" in known else "")


def _draw(sheet: Sheet, group: dict[str, list[Bar]]) -> None:
    for place, (axes, (measure, bars)) in enumerate(zip(sheet.axes(len(group)), group.items(), strict=True)):
        shown = _shown(bars)
        heights = range(len(shown))
        for y, bar in zip(heights, shown, strict=True):
            colour = TOKENS["p-ink"] if bar.benchmark else SERIES_LIGHT[0]
            few = bar.verdict == "too few repeats"
            if bar.benchmark:
                axes.plot([100, 100], [y - 0.36, y + 0.36], color=colour, linewidth=4, solid_capstyle="butt")
            else:
                axes.barh(
                    y,
                    bar.percent - 100,
                    left=100,
                    height=0.62,
                    facecolor=TOKENS["p-card"] if few else colour,
                    edgecolor=colour,
                    alpha=0.45 if bar.verdict == "inside the noise" else 1.0,
                    linewidth=1.1 if few else 0,
                )
            if bar.low is not None and bar.high is not None and not bar.benchmark:
                axes.plot(
                    [bar.low, bar.high], [y, y], color=TOKENS["p-ink"], linewidth=1.1, solid_capstyle="butt", marker="|", markersize=5
                )
            if bar.published is not None:
                axes.plot(
                    [bar.published],
                    [y],
                    marker="D",
                    markersize=5.5,
                    color=TOKENS["p-card"],
                    markeredgecolor=SERIES_LIGHT[1],
                    markeredgewidth=1.6,
                    linestyle="",
                )
            sheet.tell(axes, bar.percent, y, bar.told)
        axes.axvline(100, color=TOKENS["p-ink"], linewidth=0.9, linestyle=(0, (3, 2)))
        _scale(axes, shown)
        named = sheet.narrow or place == 0
        axes.set_yticks(list(heights), [clean(bar.label, 24 if sheet.narrow else 30) if named else "" for bar in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0, labelcolor=TOKENS["p-ink"])
        axes.spines["left"].set_visible(False)
        axes.grid(True, axis="x")
        axes.set_title(measure_title(measure))


def _shown(bars: list[Bar]) -> list[Bar]:
    """Few enough to be read, the benchmark among them."""
    if len(bars) <= MOST:
        return bars
    return [bar for bar in bars if bar.benchmark] + spread([bar for bar in bars if not bar.benchmark], MOST - 1)


def _scale(axes: object, shown: list[Bar]) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    assert isinstance(axes, Axes)
    values = [value for bar in shown for value in (bar.percent, bar.published, bar.low, bar.high) if value is not None]
    least, most = min([100.0, *values]), max([100.0, *values])
    if least > 0 and most / least > SPAN:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.6, most * 1.3)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if most / least < 100 else (1.0,), numticks=6))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        room = 0.06 * (most - least) or 1.0
        axes.set_xlim(least - room, most + room)
        axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g} %"))
