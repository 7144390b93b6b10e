"""How far the accesses of neighbouring instances are apart, site by site: what vectors and caches live on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

Pattern: TypeAlias = Literal["contiguous", "broadcast", "strided", "gather", "alone"]
Seen: TypeAlias = "int | list[int] | None"
"""Elements that an instance looked at by a site, in order; None or no number: it did not come by."""

NEAR: Final = 1024
"""Where instances run in any order, only those below this number are compared."""
_DISTINCT: Final = 64  # different strides that are kept apart


@dataclass(frozen=True)
class Stride:
    """Pairs of accesses by neighbours, by how far they are apart in elements; `stride` is the commonest, None of a gather."""

    pattern: Pattern
    stride: int | None
    contiguous: int
    broadcast: int
    other: int

    def to_json(self) -> dict[str, object]:
        return {
            "pattern": self.pattern,
            "stride": self.stride,
            "contiguous": self.contiguous,
            "broadcast": self.broadcast,
            "other": self.other,
        }


class Strides:
    """Is told what each instance looked at as it ends. `ordered`: they end by their numbers."""

    def __init__(self, sites: int, *, ordered: bool) -> None:
        self._counts: list[Counter[int]] = [Counter() for _ in range(sites)]
        self._many = [0] * sites  # strides beyond those kept apart
        self._ordered = ordered
        self._last: tuple[int, tuple[Seen, ...]] | None = None
        self._near: dict[int, tuple[Seen, ...]] = {}

    def ended(self, instance: int, seen: tuple[Seen, ...]) -> None:
        if not self._ordered:
            if instance < NEAR:
                self._near[instance] = seen
            return
        if self._last is not None and self._last[0] == instance - 1:
            self._compare(self._last[1], seen)
        self._last = (instance, seen)

    def found(self) -> list[Stride]:
        for instance, seen in self._near.items():
            if instance - 1 in self._near:
                self._compare(self._near[instance - 1], seen)
        self._near.clear()
        return [_stride(counts, many) for counts, many in zip(self._counts, self._many, strict=True)]

    def _compare(self, before: Sequence[Seen], seen: Sequence[Seen]) -> None:
        for number, (one, other) in enumerate(zip(before, seen, strict=True)):
            if isinstance(one, int) and isinstance(other, int):
                self._add(number, other - one)
            elif isinstance(one, list) and isinstance(other, list):
                for first, second in zip(one, other, strict=False):
                    self._add(number, second - first)

    def _add(self, number: int, stride: int) -> None:
        counts = self._counts[number]
        if stride in counts or len(counts) < _DISTINCT:
            counts[stride] += 1
        else:
            self._many[number] += 1


def recorded(records: np.ndarray[Any, Any], window: int) -> list[Stride]:
    """Of native code: records[instance][site] is how often it came by, and the elements of the first times; `window` instances in a row
    are neighbours."""
    if len(records) < 2:
        return [_stride(Counter(), 0)] * records.shape[1]
    depth = records.shape[2] - 2
    often = np.minimum(records[:-1, :, 0], records[1:, :, 0])
    often[window - 1 :: window] = 0  # the last of one stretch and the first of the next
    apart = records[1:, :, 1 : 1 + depth] - records[:-1, :, 1 : 1 + depth]
    both = np.arange(depth) < often[:, :, None]
    found: list[Stride] = []
    for site in range(records.shape[1]):
        strides, times = np.unique(apart[:, site][both[:, site]], return_counts=True)
        found.append(_stride(Counter(dict(zip(strides.tolist(), times.tolist(), strict=True))), 0))
    return found


def _stride(counts: Counter[int], many: int) -> Stride:
    total = sum(counts.values()) + many
    if not total:
        return Stride("alone", None, 0, 0, 0)
    ((common, times),) = counts.most_common(1)
    pattern: Pattern = "gather"
    if 2 * times > total:
        pattern = "contiguous" if common == 1 else "broadcast" if common == 0 else "strided"
    return Stride(pattern, None if pattern == "gather" else common, counts[1], counts[0], total - counts[0] - counts[1])
