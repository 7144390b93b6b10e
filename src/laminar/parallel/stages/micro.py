"""Micro-batches: which rows of a batch go through the stages together. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.parallel.split.dims import part_of


@dataclass(frozen=True)
class Some:
    """Rows of a batch: all there are of them, and those of them that are in this worker's part of the batch."""

    rows: int
    own: slice[int, int]  # within the worker's part

    @property
    def own_rows(self) -> int:
        return self.own.stop - self.own.start


def micro_batches(rows: int, wanted: int, *, place: int = 0, parts: int = 1) -> list[Some]:
    """A batch that `parts` share, in `wanted` micro-batches or fewer, all alike but the last. Each worker has of each micro-batch the part
    that it would have if there were no others: so the sizes of parts follow from the rows alone."""
    return in_portions(rows, -(-rows // (parts * wanted)), place=place, parts=parts)


def in_portions(rows: int, each: int, *, place: int = 0, parts: int = 1) -> list[Some]:
    """The same with at most so many rows for each who shares them."""
    found, begin = [], 0
    for first in range(0, rows, parts * each):
        count = min(parts * each, rows - first)
        own = len(part_of(count, place, parts))
        found.append(Some(count, slice(begin, begin + own)))
        begin += own
    return found
