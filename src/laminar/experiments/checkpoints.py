"""Checkpoints: in words, what they explain of the time that variants take; and how many of them an epoch has room for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from laminar.core.figures import many
from laminar.experiments.record import Description
from laminar.experiments.results import Cell, Extra, Row
from laminar.experiments.words import seconds

WORTH: Final = 0.05  # of a training: less is no cause of anything


def checkpoint_words(description: Description, rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for each variant that is slow because of them."""
    known = {row.variant: {name: figure.median for name, figure in row.figures.items()} for row in rows}
    base = known.get(description.benchmark, {}).get("seconds")
    for row in rows:
        figures = known[row.variant]
        took, still, written = (figures.get(name) for name in ("seconds", "checkpoint_seconds", "checkpoints"))
        if took is None or still is None or still < WORTH * took:
            continue
        each = f" for {many(round(written), 'checkpoint')} of {seconds(still / written)} each" if written else ""
        said = f"{row.label}: training stood still for {seconds(still)} of its {seconds(took)}{each}"
        if base is not None and row.variant != description.benchmark and took > base:
            said += f", which is {100 * still / (took - base):.0f} % of what it takes longer than the benchmark"
        yield said


def room_in_epochs(
    name: str, title: str, *, images: int, every: int, each: tuple[float, float], batches: Sequence[int], longer: float, epochs: int
) -> Extra:
    """By batch size: the steps of `epochs` epochs, the checkpoints in them at one `every` so many steps, the seconds that these take at
    `each` (from, to), and what part that is of the seconds that the training took `longer`."""
    columns = ("batch", "steps", "checkpoints", "seconds from", "to", "per cent explained from", "to at most")
    rows: list[dict[str, Cell]] = []
    for batch in batches:
        steps = epochs * -(-images // batch)
        count = steps // every
        low, high = (count * one for one in each)
        values: tuple[Cell, ...] = (batch, steps, count, low, high, 100 * low / longer, 100 * high / longer)
        rows.append(dict(zip(columns, values, strict=True)))
    needed: tuple[Cell, ...] = ("needed", None, f"{longer / each[1]:.0f} to {longer / each[0]:.0f}", longer, longer, 100.0, 100.0)
    return Extra(name=name, title=title, columns=columns, rows=(*rows, dict(zip(columns, needed, strict=True))))
