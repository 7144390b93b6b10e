"""What trials tell over time beside accuracy: how late gradients were, bytes that were sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Final

from laminar.core.figures import number
from laminar.experiments.pictures.chosen import Chosen, choose
from laminar.experiments.pictures.palette import REST
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Trial
from laminar.experiments.view import View

POINTS: Final = 60  # of a line; more are put together, as their mean
FAR: Final = 4.0  # times as long: then time is told in per cent of the training
_WORDS: Final = {
    "staleness": ("How late gradients were", "steps late"),
    "bytes": ("Bytes on the wire", "bytes"),
    "dense_bytes": ("Bytes without compression", "bytes"),
}


@dataclass(frozen=True)
class Track:
    xs: tuple[float, ...]
    ys: tuple[float, ...]


def track(trials: Sequence[Trial], name: str) -> Track | None:
    """The median over trials; along the seconds of the curve where the series has one value for each epoch, else in order."""
    found = [(trial, values) for trial in trials if (values := [v for v in trial.series.get(name, ()) if math.isfinite(v)])]
    if not found:
        return None
    length = sorted(len(values) for _, values in found)[len(found) // 2]
    rows = [(trial, values) for trial, values in found if len(values) >= length]
    ys = [median(values[i] for _, values in rows) for i in range(length)]
    if all(len(trial.curve) == length for trial, _ in rows):
        xs = [median(trial.curve[i].seconds for trial, _ in rows) for i in range(length)]
    else:
        seconds = median(trial.seconds for trial, _ in rows)
        xs = [seconds * (i + 1) / length for i in range(length)]
    parts = (
        [range(length * i // POINTS, length * (i + 1) // POINTS) for i in range(POINTS)]
        if length > POINTS
        else [range(i, i + 1) for i in range(length)]
    )
    return Track(tuple(xs[part[-1]] for part in parts), tuple(mean(ys[i] for i in part) for part in parts))


def names(view: View) -> list[str]:
    """Of series that any trial has, those we have words for first."""
    found = {name for trial in view.done for name, values in trial.series.items() if values}
    return [name for name in _WORDS if name in found] + sorted(found - set(_WORDS))


def pictures(view: View) -> list[Picture]:
    return [one for name in names(view) if (one := _picture(view, name)) is not None]


def _picture(view: View, name: str) -> Picture | None:
    tracks = {one.id: found for one in view.variants if (found := track(view.trials_of(one.id), name)) is not None}
    if max((len(one.ys) for one in tracks.values()), default=0) < 2:
        return None
    title, unit = _WORDS.get(name, (clean(name.replace("_", " ")).capitalize(), clean(name.replace("_", " "))))
    chosen = choose([one for one in view.variants if one.id in tracks], view.benchmark.id)
    ends = [one.xs[-1] for one in tracks.values()]
    share = min(ends) > 0 and max(ends) > FAR * min(ends)
    if share:
        tracks = {id: Track(tuple(100 * x / one.xs[-1] for x in one.xs), one.ys) for id, one in tracks.items()}
    caption = f"{title} while training; medians of the trials." + chosen.rest_words()
    stem = "".join(c if c.isalnum() else "-" for c in name)[:40]
    return Picture(
        f"{stem}-over-time", f"{title} over time", caption, lambda sheet: _draw(sheet, chosen, tracks, unit, share), Size(3.4, 3.5)
    )


def _draw(sheet: Sheet, chosen: Chosen, tracks: dict[str, Track], unit: str, share: bool) -> None:
    from matplotlib.ticker import EngFormatter

    (axes,) = sheet.axes()
    for one in chosen.rest:
        axes.plot(tracks[one.id].xs, tracks[one.id].ys, color=REST.colour, linewidth=REST.width)
    for one, pen in chosen.drawn:
        found = tracks[one.id]
        told = [f"{one.label}\n{number(x)} {'%' if share else 's'}: {number(y)} {unit}" for x, y in zip(found.xs, found.ys, strict=True)]
        sheet.line(axes, found.xs, found.ys, pen, clean(one.label, 26 if sheet.narrow else 40), told)
    if unit == "bytes":
        axes.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(True)
    axes.set_xlabel("per cent of the training" if share else "seconds of training")
    axes.set_ylabel(unit)
    sheet.legend(axes)
