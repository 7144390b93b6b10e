"""Over-fitting: accuracy on the data that was learnt from (dashed) and on data held out (solid), epoch by epoch."""

from __future__ import annotations

from typing import Final

from laminar.core.figures import number
from laminar.experiments.pictures.chosen import choose
from laminar.experiments.pictures.curves import Bundle, bundle
from laminar.experiments.pictures.palette import TOKENS, Pen
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.record import Variant
from laminar.experiments.view import View

PANELS: Final = 3
Pair = tuple[Variant, Pen, Bundle, Bundle]  # learnt from, held out


def pairs(view: View) -> list[Pair]:
    """The benchmark and the variants that over-fit most: where the two are furthest apart at the end."""
    found: list[Pair] = []
    for one, pen in choose(view.variants, view.benchmark.id, len(view.variants)).drawn:
        trials = view.trials_of(one.id)
        learnt = bundle(one.label, trials, lambda point: point.accuracy)
        held = bundle(one.label, trials, lambda point: point.test_accuracy)
        if learnt is not None and held is not None and len(held.epochs) > 1:
            found.append((one, pen, learnt, held))
    first = [pair for pair in found if pair[0].id == view.benchmark.id]
    others = sorted((pair for pair in found if pair[0].id != view.benchmark.id), key=lambda pair: -gap(pair))
    return [*first, *others][:PANELS]


def gap(pair: Pair) -> float:
    return pair[2].middle[-1] - pair[3].middle[-1]


def picture(view: View) -> Picture | None:
    found = pairs(view)
    if not found:
        return None
    worst = max(found, key=gap)
    words = (
        f"{clean(worst[0].label)} is {100 * gap(worst):.1f} points better on what it has seen than on what it has not."
        if gap(worst) > 0
        else "None is better on what it has seen than on what it has not."
    )
    caption = (
        "Accuracy on data that was learnt from (dashed) and on data held out (solid), after each epoch; the gap is over-fitting. " + words
    )
    return Picture("over-fitting", "Seen and unseen data", caption, lambda sheet: _draw(sheet, found), Size(3.1, 0.3 + 2.3 * len(found)))


def _draw(sheet: Sheet, found: list[Pair]) -> None:
    from matplotlib.ticker import MaxNLocator

    drawn = sheet.axes(len(found))
    for axes, (one, pen, learnt, held) in zip(drawn, found, strict=True):
        both = sorted(set(learnt.epochs) & set(held.epochs))
        upper = [learnt.middle[learnt.epochs.index(epoch)] for epoch in both]
        lower = [held.middle[held.epochs.index(epoch)] for epoch in both]
        axes.fill_between(both, lower, upper, color=pen.colour, alpha=0.12, linewidth=0)
        sheet.line(axes, learnt.epochs, learnt.middle, pen, "learnt from", marker="", linestyle=(0, (4, 2)), linewidth=1.4)
        told = [f"{one.label}\nepoch {epoch}: {number(a)} seen, {number(b)} unseen" for epoch, a, b in zip(both, upper, lower, strict=True)]
        sheet.line(axes, both, lower, pen, "held out", told, linestyle="solid")
        axes.set_title(clean(one.label, 30), color=TOKENS["p-ink"])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(True)
        axes.set_xlabel("epoch")
    drawn[0].set_ylabel("accuracy")
    low = min(min(pair[3].low + pair[2].low) for pair in found)
    high = max(max(pair[3].high + pair[2].high) for pair in found)
    room = 0.05 * (high - low or 0.1)
    for axes in drawn:
        axes.set_ylim(low - room, high + room)
    sheet.legend(drawn[0])
