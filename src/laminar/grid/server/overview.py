"""Overview: a grid in figures, for the status page, for commands and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import func, select

from laminar.grid.db import nodes, runs, tasks, times, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.nodes import ACTIVE, DAY
from laminar.grid.db.runs import Run
from laminar.grid.db.schema import nodes as node_table
from laminar.grid.db.schema import results
from laminar.grid.db.schema import runs as run_table
from laminar.grid.db.schema import tasks as task_table
from laminar.grid.utilization import PARTS, Times

NEAR: Final = 90.0  # seconds in which a node that has time asks


def status(tx: Tx, now: float) -> dict[str, Any]:
    spent = times.by_run(tx)
    return {
        "now": now,
        "nodes": _people(tx, now),
        "runs": [run_told(tx, run, spent) for run in runs.all_of(tx)],
        "tasks": tasks.by_state(tx),
    }


def _number(tx: Tx, *which: Any) -> int:
    return int(tx.execute(select(func.count()).select_from(node_table).where(*which)).scalar_one())


def _people(tx: Tx, now: float) -> dict[str, int]:
    banned = node_table.c.banned.is_not(None)
    return {
        "known": _number(tx),
        "active": _number(tx, ~banned, node_table.c.seen > now - ACTIVE),
        "trusted": _number(tx, node_table.c.trusted.is_(True)),
        "banned": _number(tx, banned),
    }


def company(tx: Tx, run: Run, now: float, bytes_a_day: int | None = None) -> dict[str, int]:
    """Who there is for a run that waits: `near` asked for work just now, and of these `spent` have had all their tasks of today, or all
    their bytes, and `able` have the kernels that it needs."""
    near = (node_table.c.seen > now - NEAR) & node_table.c.banned.is_(None)
    enough = node_table.c.sent_today >= node_table.c.quota
    if bytes_a_day is not None:
        enough |= node_table.c.bytes_today >= bytes_a_day
    spent = (node_table.c.day == int(now // DAY)) & enough
    return {
        **_people(tx, now),
        "near": _number(tx, near),
        "spent": _number(tx, near, spent),
        "able": _number(tx, near, *nodes.having(run.settings.needs)),
    }


def caught(tx: Tx, run: Run) -> dict[str, str]:
    """Nodes that answered this run wrongly and are banned by now, and why. The first hundred."""
    wrong = select(results.c.node).where(results.c.run == run.id, results.c.state == "invalid")
    who = select(node_table.c.name, node_table.c.number, node_table.c.banned).where(node_table.c.banned.is_not(None))
    rows = tx.execute(who.where(node_table.c.id.in_(wrong)).order_by(node_table.c.number).limit(100))
    return {f"{row.name} (no {row.number})": row.banned for row in rows}


def run_told(tx: Tx, run: Run, spent: Mapping[int, dict[str, float]] | None = None) -> dict[str, Any]:
    """A run with its progress, its price of trust, and the curve of its tests. `spent`: what is known of the time of nodes, by run."""
    counted = runs.counts_of(tx, run.id)
    machine = runs.aggregator(tx, run)
    answers, applied = counted.get("answers", 0), counted.get("applied", 0)
    refused = {what.removeprefix("refused "): number for what, number in counted.items() if what.startswith("refused ")}
    curve = [point for point in versions.curve(tx, run.id) if len(point) > 2]
    return {
        "name": run.name,
        "layer": run.layer,
        "state": run.state,
        "why": run.why,
        "version": run.version,
        "rounds": run.settings.rounds,
        "mode": run.settings.grid.mode,
        "kernels": run.settings.kernels,
        "made": run.made,
        "ended": run.ended,
        "answers": answers,
        "applied": applied,
        "steps": counted.get("applied steps", 0),
        "staleness": machine.statistics.mean_staleness,
        "bytes": {"up": counted.get("bytes up", 0), "dense": counted.get("dense bytes", 0)},
        "trust": {
            "checks": counted.get("checks", 0),  # tasks that were done twice
            "compared": counted.get("compared", 0),
            "unchecked": counted.get("unchecked", 0),
            "disagreements": counted.get("disagreements", 0),
            "overhead": max(0.0, answers / applied - 1) if applied else 0.0,
        },
        "refused": refused,
        "dropped": {what.removeprefix("dropped "): number for what, number in counted.items() if what.startswith("dropped ")},
        "late": counted.get("late", 0),
        "lost": counted.get("lost", 0),
        "repeated": counted.get("repeated", 0),
        "failed": counted.get("failed", 0),
        "results": tasks.by_state(tx, run.id),
        "utilization": (times.by_run(tx) if spent is None else spent).get(run.id, times.NOTHING),
        "curve": curve,
    }


def nodes_told(tx: Tx, now: float) -> list[dict[str, Any]]:
    wanted = ("id", "number", "name", "owner", "seen", "banned", "trusted", "speed", "available", "streak", "valid", "invalid", "lost")
    more = ("quota", "credit", "bytes_down", "bytes_up", "up", "down", "facts", "enrolled")
    return [
        {
            **{key: row[key] for key in (*wanted, *more)},
            "active": row["seen"] > now - ACTIVE and not row["banned"],
            "utilization": _utilization(row),
        }
        for row in nodes.everyone(tx)
    ]


def tasks_told(tx: Tx, now: float) -> list[dict[str, Any]]:  # noqa: ARG001
    """The newest hundred results."""
    query = (
        select(
            results.c.id,
            results.c.task,
            run_table.c.name.label("run"),
            results.c.state,
            results.c.verdict,
            results.c.used,
            results.c.sent,
            results.c.lease,
            results.c.returned,
            results.c.bytes,
            task_table.c.round,
            task_table.c.version,
            task_table.c.needs,
            node_table.c.name.label("node"),
        )
        .join(task_table, task_table.c.id == results.c.task)
        .join(run_table, run_table.c.id == results.c.run)
        .outerjoin(node_table, node_table.c.id == results.c.node)
        .order_by(results.c.id.desc())
        .limit(100)
    )
    return [dict(row) for row in tx.execute(query).mappings()]


def rounds_told(tx: Tx, now: float) -> list[dict[str, Any]]:  # noqa: ARG001
    rows = [{"name": run.name, **row} for run in runs.all_of(tx) for row in runs.rounds_of(tx, run.id, last=100)]
    return [{**{key: row[key] for key in row if key not in PARTS}, "utilization": _utilization(row)} for row in rows]


def _utilization(row: Mapping[str, Any]) -> dict[str, float]:
    """Of a node, or of all nodes in a round, as they say."""
    return Times(*(float(row[part]) for part in PARTS)).told()
