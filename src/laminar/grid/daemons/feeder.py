"""Feeder: some results that wait for nodes, in memory, so that a request finds one without a search of the database.

What is here may be out of date: whoever takes a result claims it in the database, and finds out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, final

from laminar.grid.db import tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.tasks import Waiting

SIZE: Final = 512  # more than a transaction gives out
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

    def fill(self, tx: Tx, asks: int) -> None:
        """So many are about to ask. In the midst of a transaction, all that it has changed would have to be written first."""
        if self._stale or (self._more and len(self._array) < asks + LOW):
            self._array = {one.result: one for one in tasks.waiting(tx, SIZE)}
            self._stale, self._more = False, len(self._array) >= SIZE

    def offers(self, tx: Tx, has: Collection[tuple[int, int | None]]) -> Iterator[Waiting]:
        """What waits, best first: what was lost or is to be compared, then tasks whose sample the node has, then the oldest.

        `has`: run and sample.
        """
        self.fill(tx, 0)
        near = list(islice(self._array.values(), LOOK))
        yield from sorted(near, key=lambda one: (one.fresh, (one.run, one.sample) not in has, one.result)) if has else near
        if len(near) == LOOK:
            yield from list(self._array.values())[LOOK:]

    def reached(self, tx: Tx, one: Waiting) -> bool:
        """It is read, to be given out, with those that come after it. False: another server has it."""
        if one.result not in tx.sheets.results.rows:
            ahead = [other for other in islice(self._array.values(), 4 * LOOK) if other.fresh] if one.fresh else []
            tasks.reach(tx, [one, *ahead])
        return tasks.reached(tx, one)

    @property
    def empty(self) -> bool:
        return not (self._array or self._stale or self._more)

    def taken(self, result: int) -> None:
        self._array.pop(result, None)
