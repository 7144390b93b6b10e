"""Reports: what a node says of its time (utilization.py). All of it is its word: no more is believed than the time that there was."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laminar.grid.db import runs, tasks, times
from laminar.grid.db.book import Tx
from laminar.grid.states import VAIN, ResultState
from laminar.grid.utilization import Times, plausible
from laminar.grid.wire.messages import Spent


def take(tx: Tx, id: str, number: int, spent: Sequence[Spent], now: float) -> None:
    """A report that was heard before, or that claims more time than has passed since the node joined, is of no account."""
    row = tx.sheets.nodes.get(tx, id)
    if row is None or not spent or number == row.report:
        return
    tx.sheets.nodes.change(row, report=number)
    known = times.of_row(row)
    if not plausible(spent, known.total, row.enrolled, now):
        return
    tasks.load_answers(tx, {one.result for one in spent if one.result})
    for one in spent:
        known += _on_its_result(tx, id, one, now)
    times.keep(tx, row, known)


def _on_its_result(tx: Tx, id: str, one: Spent, now: float) -> Times:
    """It counts for a run where the result is this node's, and for as long as it has had it. A run that is over is not waited for."""
    found = Times(one.computing, one.transfer, one.waiting, one.paused)
    result = tasks.result(tx, one.result) if one.result else None
    if result is None or result.node != id or not plausible([one], 0.0, result.sent, now):
        return found
    if result.state in VAIN or result.state == ResultState.LOST or result.used == "dropped":
        found = Times(0.0, one.transfer, one.waiting, one.paused, wasted=one.computing)
    elif one.computing:
        tx.sheets.results.change(result, computing=result.computing + one.computing)
    run = runs.get(tx, result.run)
    if run is not None:
        times.add(tx, result, found if run.state in ("open", "paused") else msgspec.structs.replace(found, waiting=0.0, paused=0.0))
    return found
