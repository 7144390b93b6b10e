"""Which pictures an experiment gets: those that its axes, measures and trials have something to say in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laminar.experiments.lineage import Node
from laminar.experiments.pictures import along, bars, batch, curves, overfit, series, speedup, time_to, tree
from laminar.experiments.pictures.sheet import Picture
from laminar.experiments.view import View


def pictures(view: View, roots: Sequence[Node] = ()) -> list[Picture]:
    """What the question is about first. Nothing is drawn yet."""
    return list(_pictures(view, roots))


def _pictures(view: View, roots: Sequence[Node]) -> Iterator[Picture]:
    if not view.done:
        return
    told = [one for one in (speedup.picture(view), batch.picture(view)) if one is not None]
    yield from told
    numbers = [axis for axis in view.axes if view.is_numeric(axis)]
    if any(one.line for one in view.variants):
        numbers = numbers[:1]  # what else differs along a line goes with it
    lines = [found for axis in numbers if (found := along.picture(view, axis)) is not None]
    yield from lines
    if not lines or len(view.variants) <= bars.MOST:
        yield from bars.pictures(view)
    for one in (time_to.picture(view), curves.picture(view), overfit.picture(view)):
        if one is not None:
            yield one
    yield from series.pictures(view)
    below = tree.picture(view, roots)
    if below is not None:
        yield below
