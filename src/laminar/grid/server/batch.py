"""Batch: what the requests of one transaction have in common is read at its beginning, and what their answers lead to is done at its end.

A hundred answers so cost a few statements, not thousands, and each row is written once on its way from "in progress" to "valid". Whether
the daemons work here or on machines of their own (`laminar grid daemon`), what they do is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from laminar.grid.daemons.office import Office
from laminar.grid.db import runs, tasks
from laminar.grid.db.book import Tx
from laminar.grid.db.sheets import load_nodes
from laminar.grid.desk import Wants


@final
class Batch:
    def __init__(self, office: Office) -> None:
        self._office = office

    def before(self, tx: Tx, wants: Sequence[Wants]) -> None:
        """Locks are taken in one order: runs, tasks, results, nodes (db/sheets.py)."""

        def lock(some: set[int]) -> None:
            for run in sorted(some) if self._office.locks_runs else ():
                runs.get(tx, run, for_update=True)

        answered = {one.result for one in wants if one.result is not None}
        tasks.load_answers(tx, answered.union(*(one.spent for one in wants)), lock)
        load_nodes(tx, {one.node for one in wants})
        asking = {one.node for one in wants if one.asks}
        tasks.load_held(tx, asking)
        self._office.feed(tx, len(asking))

    def after(self, tx: Tx) -> None:
        answered = tx.sheets.answered
        if answered:
            self._office.at_once(tx, answered)
