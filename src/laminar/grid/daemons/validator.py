"""Validator: looks at the answers of a task and says which are good (trust/agreement.py).

Good ones go on to the assimilator together, as one. Who disagrees with them is wrong, and loses its reputation; but nobody is wrong for
disagreeing with a single answer that was believed. Where too few agree, one more node is asked, up to a number of attempts; then the task
has failed, and nobody is blamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from laminar.grid.daemons.accounting import given, keeps_back, put_back, tolerance_of
from laminar.grid.db import nodes, runs, tasks, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.moves import end_task, move
from laminar.grid.db.runs import Run
from laminar.grid.states import ResultState, TaskState
from laminar.grid.trust.agreement import Verdict, judge

DISAGREES: Final = "disagrees with the other answers to its task"
UNSURE: Final = "its task was done by another, whose answer nobody has compared"


@dataclass
class Found:
    """`asked`: somebody else is to be asked, so there is new work. `good`: results to be assimilated, by run."""

    asked: bool = False
    good: dict[int, list[int]] = field(default_factory=dict)


def validate(tx: Tx, now: float, answered: Mapping[int, int] | None = None) -> Found:
    """`answered`: tasks with answers that have just come, and their runs; else all that there are. Those another process has are its."""
    known = {row.task: row.run for row in tasks.to_do(tx, tasks.VALIDATE)} if answered is None else answered
    found = Found()
    for task in tasks.claim(tx, known):  # answers that came together are looked at together
        run = runs.get(tx, known[task])
        if run is not None:
            _task(tx, run, task, now, found)
    return found


def _task(tx: Tx, run: Run, id: int, now: float, found: Found) -> None:
    task = tasks.task(tx, id)
    rows = tasks.results_of(tx, id)
    here = [row for row in rows if row.state in ("returned", "valid")]
    tasks.mark(tx, [row.id for row in here if row.todo == tasks.VALIDATE], todo=None)
    answers = [given(row.id, row.node, row.sketch, trusted=nodes.trusted(tx, row.node), valid=row.state == "valid") for row in here]
    verdict = judge(answers, task.needs, tolerance_of(run))
    if verdict.how == "waits":
        found.asked |= _wait(tx, run, task, rows, verdict, now)
        return
    first = bool(task.state == TaskState.OPEN.value)
    work = task.steps * run.settings.recipe.batch
    compared = verdict.how != "alone" and len(here) > 1
    unsure = verdict.how == "agreed" and all(row.verdict == "alone" for row in here if row.state == "valid")
    for row in here:
        if row.state != "returned":
            continue
        if row.id in verdict.good:
            _good(tx, run, row, verdict, now, first=first, credit=work, compared=compared)
        elif not first and unsure:
            put_back(tx, run, row.node, row.id, now, accounted=True)
            move(tx, row.id, ResultState.LATE, verdict=UNSURE, used="dropped", todo=tasks.DELETE, tell=row.node)
            runs.count(tx, run.id, disagreements=1)
        else:
            refuse(tx, run, row, DISAGREES, now, kind="disagrees")
    if first:
        end_task(tx, id, TaskState.DONE)
        best = next(row.id for row in here if row.id in verdict.good)
        tasks.mark(tx, [best], todo=tasks.ASSIMILATE)
        found.good.setdefault(run.id, []).append(best)
        _cancel_others(tx, rows)


def _good(tx: Tx, run: Run, row: Any, verdict: Verdict, now: float, *, first: bool, credit: int, compared: bool) -> None:
    extra: dict[str, Any] = {"used": "with"} if first else {"used": "extra", "todo": tasks.DELETE, "tell": row.node}
    move(tx, row.id, ResultState.VALID, verdict=verdict.how, **extra)
    if not first:
        put_back(tx, run, row.node, row.id, now, accounted=True)
    nodes.judged(tx, row.node, good=True, compared=compared, credit=float(credit))
    runs.count(tx, run.id, valid=1, **({"compared": 1} if compared else {}))


def refuse(tx: Tx, run: Run, row: Any, why: str, now: float, *, kind: str) -> None:
    """An answer is wrong: its node answers for it, and the task needs another, unless it has a good one."""
    if move(tx, row.id, ResultState.INVALID, verdict=why, todo=tasks.DELETE, tell=row.node):
        nodes.judged(tx, row.node, good=False, compared=True, why=kind)
        if keeps_back(run):
            versions.keep_account(tx, run.id, row.node, b"", now)  # its node begins anew
        runs.add(tx, run.id, {"invalid": 1, f"refused {kind}": 1})


def _wait(tx: Tx, run: Run, task: Any, rows: list[Any], verdict: Verdict, now: float) -> bool:
    """Answers are missing, or do not agree. See that one comes."""
    if verdict.needs != task.needs:
        tasks.change(tx, task.id, needs=verdict.needs)
        runs.count(tx, run.id, disagreements=1)
    return replace(tx, run, task.id, rows, now, needs=verdict.needs)


def replace(tx: Tx, run: Run, id: int, rows: list[Any], now: float, *, needs: int) -> bool:
    """See that there are as many results as answers are needed; True if there are new ones. A task may fail for good."""
    alive = sum(row.state in ("unsent", "in progress", "returned") for row in rows)
    task = tasks.task(tx, id)
    if task.state != TaskState.OPEN.value or alive >= needs:
        return False
    if task.attempts >= run.settings.grid.attempts:
        if not any(row.state in ("unsent", "in progress") for row in rows):
            for row in rows:  # nobody is blamed, and nothing is lost that compression could keep
                if row.state == "returned":
                    put_back(tx, run, row.node, row.id, now, accounted=True)
                    move(tx, row.id, ResultState.LATE, verdict="its task has failed", used="dropped", todo=tasks.DELETE, tell=row.node)
            end_task(tx, id, TaskState.FAILED)
            runs.count(tx, run.id, failed=1)
        return False
    tasks.change(tx, id, attempts=task.attempts + needs - alive)
    for _ in range(needs - alive):
        tasks.another(tx, id, run.id, priority=tasks.AGAIN, check=needs > 1)
    return True


def _cancel_others(tx: Tx, rows: list[Any]) -> None:
    """Nobody needs to begin with what is done."""
    for row in rows:
        if row.state == "unsent":
            move(tx, row.id, ResultState.GIVEN_UP, verdict="the task is done")
