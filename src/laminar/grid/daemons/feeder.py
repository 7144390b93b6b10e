"""Feeder: some results that wait for nodes, in memory, so that a request finds one without a search of the database.

What is here may be out of date: whoever takes a result claims it in the database, and finds out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, final

from laminar.grid.db import tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.tasks import Waiting

SIZE: Final = 256
LOW: Final = 32
LOOK: Final = 32  # results that are looked through for one that suits


@final
class Feeder:
    def __init__(self) -> None:
        self._array: dict[int, Waiting] = {}
        self._stale = True  # the database may have others than are here
        self._more = False  # it has more than there was room for

    def changed(self) -> None:
        """There is new work, or a run has begun, paused or ended."""
        self._stale = True

    def offers(self, tx: Tx, has: Collection[tuple[int, int | None]]) -> Iterator[Waiting]:
        """What waits, best first: what was lost or is to be compared, then tasks whose sample the node has, then the oldest.

        `has`: run and sample.
        """
        if self._stale or (self._more and len(self._array) < LOW):
            self._array = {one.result: one for one in tasks.waiting(tx, SIZE)}
            self._stale, self._more = False, len(self._array) >= SIZE
        near = [one for one, _ in zip(self._array.values(), range(LOOK), strict=False)]
        yield from sorted(near, key=lambda one: (one.fresh, (one.run, one.sample) not in has, one.result))
        yield from [one for one in self._array.values() if one not in near]

    def taken(self, result: int) -> None:
        self._array.pop(result, None)

    def __len__(self) -> int:
        return len(self._array)
