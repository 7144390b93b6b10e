"""Time against accuracy: how long each variant took to every accuracy on its way to the target, as in figure 2 of Varykhanov et al.

The curves are those of curves.py with their axes exchanged, as far as they rise: an accuracy is reached when it is first there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from laminar.core.figures import many, number
from laminar.experiments.measures import measure_of
from laminar.experiments.pictures.chosen import Chosen, choose
from laminar.experiments.pictures.curves import bundle
from laminar.experiments.pictures.palette import TOKENS
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Trial
from laminar.experiments.view import View

SECONDS = "time_to_target"


@dataclass(frozen=True)
class Way:
    """Of one variant, rising in both: accuracies, and the seconds to each; the last is the target, where it was reached."""

    accuracies: tuple[float, ...]
    seconds: tuple[float, ...]
    reached: bool


def way(label: str, trials: Sequence[Trial], target: float) -> Way | None:
    """None where no accuracy is known."""
    found = bundle(label, trials, lambda point: point.test_accuracy)
    if found is None:
        return None
    points: list[tuple[float, float]] = []
    for accuracy, seconds in zip(found.middle, found.seconds, strict=True):
        if accuracy < target and (not points or accuracy > points[-1][0]):
            points.append((accuracy, seconds))
    known = [took for one in trials if (took := measure_of(one, SECONDS, target)) is not None]
    reached = 2 * len(known) >= len(trials)
    if reached and known:
        points = [one for one in points if one[1] < median(known)]
        points.append((target, median(known)))
    if not points:
        return None
    accuracies, times = zip(*points, strict=True)
    return Way(accuracies, times, reached)


def picture(view: View) -> Picture | None:
    """None where nobody asks for the time to a target."""
    target = view.description.target
    if target is None or SECONDS not in view.description.measures:
        return None
    ways = {one.id: found for one in view.variants if (found := way(one.label, view.trials_of(one.id), target)) is not None}
    if not ways:
        return None
    chosen = choose([one for one in view.variants if one.id in ways], view.benchmark.id)
    late = [one.label for one in view.variants if one.id in ways and not ways[one.id].reached]
    caption = (
        f"Seconds of training to each accuracy on data it has not seen, up to the target of {target:g}; medians of "
        f"{many(max(len(view.trials_of(id)) for id in ways), 'trial')}, tested after each epoch and straight between tests."
        + (f" The target was not reached by {', '.join(late)}." if late else "")
        + chosen.rest_words()
    )
    return Picture(
        "time-against-accuracy", "Time against accuracy", caption, lambda sheet: _draw(sheet, chosen, ways, target), Size(4.0, 4.2)
    )


def _draw(sheet: Sheet, chosen: Chosen, ways: dict[str, Way], target: float) -> None:
    (axes,) = sheet.axes()
    for one, pen in chosen.drawn:
        found = ways[one.id]
        label = clean(one.label, 26 if sheet.narrow else 40)
        told = [f"{one.label}\n{number(at)} after {number(seconds)} s" for at, seconds in zip(found.accuracies, found.seconds, strict=True)]
        sheet.line(axes, found.accuracies, found.seconds, pen, label, told)
    axes.axvline(target, color=TOKENS["p-dim"], linewidth=1, linestyle=(0, (1, 2)))
    axes.set_ylim(bottom=0)
    axes.grid(True)
    axes.set_xlabel("accuracy")
    axes.set_ylabel("seconds of training")
    sheet.legend(axes)
