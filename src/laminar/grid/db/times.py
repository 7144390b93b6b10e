"""Times: what nodes say of their time, by node, by round and by run (utilization.py). Kept with the transaction, and written at its end."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, select, update

from laminar.grid.db import bulk
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import rounds, times
from laminar.grid.db.tx import Tx
from laminar.grid.utilization import PARTS, Times

_NAMES: Final = tuple(part.value for part in PARTS)
_ROUND: Final = Prepared(
    update(rounds)
    .where(rounds.c.run == bindparam("r"), rounds.c.round == bindparam("n"))
    .values({name: rounds.c[name] + bindparam(f"more_{name}") for name in _NAMES})
)
_TOTAL: Final = sum((times.c[name] for name in _NAMES[1:]), times.c[_NAMES[0]])
_RUNS: Final = Prepared(
    select(
        times.c.run,
        func.count().label("nodes"),
        func.sum(_TOTAL).label("seconds"),
        *(func.avg(times.c[name] / _TOTAL).label(name) for name in _NAMES),
    )
    .where(_TOTAL > 0)
    .group_by(times.c.run)
)


def of_row(row: Any) -> Times:
    """Of a row that has a column for each part."""
    return Times(*(float(getattr(row, name)) for name in _NAMES))


def keep(tx: Tx, node: Any, known: Times) -> None:
    """All that is known of a node from now on."""
    tx.sheets.nodes.change(node, **msgspec.structs.asdict(known))


def add(tx: Tx, result: Any, found: Times) -> None:
    """To what is known of the run and the round of a result, and of its node in them."""
    key = result.run, tx.sheets.tasks.get(tx, result.task).round, result.node
    tx.times[key] = tx.times.get(key, Times()) + found


def waste(tx: Tx, result: Any) -> None:
    """A result comes to nothing: so does what its node says to have computed for it."""
    computing = float(result.computing)
    if not computing:
        return
    moved = Times(computing=-computing, wasted=computing)
    tx.sheets.results.change(result, computing=0.0)
    add(tx, result, moved)
    node = tx.sheets.nodes.get(tx, result.node)
    if node is not None:
        keep(tx, node, of_row(node) + moved)


def flush_times(tx: Tx) -> None:
    by_node: dict[tuple[int, str], Times] = defaultdict(Times)
    by_round: dict[tuple[int, int], Times] = defaultdict(Times)
    for (run, round, node), found in tx.times.items():
        by_node[run, node] += found
        by_round[run, round] += found
    tx.times.clear()
    if by_node:
        bulk.sum_up(tx, times, _NAMES, [(*key, *by_node[key].values) for key in sorted(by_node)])
    for (run, round), found in sorted(by_round.items()):
        _ROUND.change(tx, r=run, n=round, **{f"more_{name}": value for name, value in zip(_NAMES, found.values, strict=True)})


def by_run(tx: Tx) -> dict[int, dict[str, float]]:
    """Of each run of which something is known: how many nodes worked for it, their seconds, and the mean of their shares."""
    flush_times(tx)
    return {row.run: {name: float(getattr(row, name)) for name in ("nodes", "seconds", *_NAMES)} for row in _RUNS.rows(tx)}


NOTHING: Final = {"nodes": 0.0, **Times().told()}  # of a run for which no node has reported
