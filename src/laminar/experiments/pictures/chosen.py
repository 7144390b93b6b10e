"""Which variants of many are drawn in colour: no more than can be told apart. The rest stays, in pale grey. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from laminar.core.figures import many
from laminar.experiments.pictures.palette import BENCHMARK, Pen, pen
from laminar.experiments.record import Variant

T = TypeVar("T")
MOST: Final = 7  # in colour, with the benchmark


@dataclass(frozen=True)
class Chosen:
    drawn: tuple[tuple[Variant, Pen], ...]
    rest: tuple[Variant, ...]

    def rest_words(self) -> str:
        return f" {many(len(self.rest), 'other variant', 'is')} drawn in grey." if self.rest else ""


def choose(variants: Sequence[Variant], benchmark: str, most: int = MOST) -> Chosen:
    """The benchmark, in ink, and of the others as many as there is room for, evenly along their order."""
    first = [one for one in variants if one.id == benchmark]
    others = [one for one in variants if one.id != benchmark]
    taken = spread(others, most - len(first))
    kept = {one.id for one in taken}
    drawn = [(one, BENCHMARK) for one in first] + [(one, pen(place)) for place, one in enumerate(taken)]
    return Chosen(tuple(drawn), tuple(one for one in others if one.id not in kept))


def spread(items: Sequence[T], most: int) -> list[T]:
    """`most` of them, the first and the last among them."""
    if len(items) <= most or most < 2:
        return list(items[: max(0, most)])
    places = sorted({round(i * (len(items) - 1) / (most - 1)) for i in range(most)})
    return [items[i] for i in places]
