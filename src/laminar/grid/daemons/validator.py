"""Validator: looks at the answers of a task and says which are good (trust/agreement.py).

Good ones go on to the assimilator together, as one. Who disagrees with them is wrong, and loses its reputation; but nobody is wrong for
disagreeing with a single answer that was believed. Where too few agree, one more node is asked, up to a number of attempts; then the task
has failed, and nobody is blamed.

A validator of another package (own.py) says itself which are good and which are wrong. Only answers that come after their task was done
are compared as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from laminar.grid.daemons import own
from laminar.grid.daemons.accounting import given, keeps_back, put_back, tolerance_of
from laminar.grid.db import nodes, runs, tasks, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.moves import end_task, move
from laminar.grid.db.runs import Run
from laminar.grid.states import ResultState, TaskState
from laminar.grid.trust.agreement import Verdict, judge
from laminar.train.own_daemons import OwnDaemon

DISAGREES: Final = "disagrees with the other answers to its task"
NOT_CHOSEN: Final = "the validator of its run took another"
AT_ONCE: Final = 4096  # answers
UNSURE: Final = "its task was done by another, whose answer nobody has compared"


@dataclass
class Found:
    """`asked`: somebody else is to be asked, so there is new work. `good`: results to be assimilated, by run."""

    asked: bool = False
    good: dict[int, list[int]] = field(default_factory=dict)


def validate(tx: Tx, now: float, answered: Mapping[int, int] | None = None) -> Found:
    """`answered`: tasks with answers that have just come, and their runs; else all that there are. Those another process has are its."""
    known = {row.task: row.run for row in tasks.to_do(tx, tasks.VALIDATE, limit=AT_ONCE)} if answered is None else dict(answered)
    for id in {run for run in known.values() if _stands_still(runs.get(tx, run))}:
        known = {task: run for task, run in known.items() if run != id}
    found = Found()
    for task in tasks.claim(tx, known):  # answers that came together are looked at together
        run = runs.get(tx, known[task])
        if run is not None:
            _task(tx, run, task, now, found)
    return found


def _stands_still(run: Run | None) -> bool:
    """A validator of another package may have failed, and is asked again when somebody has resumed its run."""
    return run is not None and run.state == "paused" and run.settings.own("validator") is not None


def _task(tx: Tx, run: Run, id: int, now: float, found: Found) -> None:
    task = tasks.task(tx, id)
    rows = tasks.results_of(tx, id)
    here = [row for row in rows if row.state in ("returned", "valid")]
    tasks.mark(tx, [row.id for row in here if row.todo == tasks.VALIDATE], todo=None)
    first = bool(task.state == TaskState.OPEN.value)
    daemon = run.settings.own("validator") if first else None
    verdict = _compared(tx, run, task, here) if daemon is None else _asked(tx, run, daemon, task, here, now)
    if verdict.how == "waits":
        rows = tasks.results_of(tx, id)
        found.asked |= _wait(tx, run, task, rows, verdict, now)
        return
    work = task.steps * run.settings.recipe.batch
    compared = verdict.how != "alone" and len(here) > 1
    unsure = verdict.how == "agreed" and all(row.verdict == "alone" for row in here if row.state == "valid")
    for row in here:
        if row.state != "returned":
            continue
        if row.id in verdict.good:
            _good(tx, run, row, verdict, now, first=first, credit=work, compared=compared)
        elif (not first and unsure) or (daemon is not None and row.id not in verdict.bad):
            put_back(tx, run, row.node, row.id, now, accounted=True)
            why = UNSURE if daemon is None else NOT_CHOSEN
            move(tx, row.id, ResultState.LATE, verdict=why, used="dropped", todo=tasks.DELETE, tell=row.node)
            runs.count(tx, run.id, disagreements=1)
        else:
            why, kind = (DISAGREES, "disagrees") if daemon is None else (f"refused by {daemon}", daemon.name)
            refuse(tx, run, row, why, now, kind=kind)
    if first:
        end_task(tx, id, TaskState.DONE)
        best = next(row.id for row in here if row.id in verdict.good)
        tasks.mark(tx, [best], todo=tasks.ASSIMILATE)
        found.good.setdefault(run.id, []).append(best)
        _cancel_others(tx, rows)


def _compared(tx: Tx, run: Run, task: Any, here: list[Any]) -> Verdict:
    answers = [given(row.id, row.node, row.sketch, trusted=nodes.trusted(tx, row.node), valid=row.state == "valid") for row in here]
    return judge(answers, task.needs, tolerance_of(run))


def _asked(tx: Tx, run: Run, daemon: OwnDaemon, task: Any, here: list[Any], now: float) -> Verdict:
    """What a validator of another package says of the answers to a task that is not done. Wrong ones are refused at once."""
    if len(here) < task.needs:
        return Verdict((), (), task.needs, "waits")
    said = own.judge(tx, run, daemon, here, task.needs)
    if said.good:
        return Verdict(tuple(said.good), tuple(said.wrong), task.needs, "agreed" if len(here) > 1 else "alone")
    for row in here:
        if row.id in said.wrong:
            refuse(tx, run, row, f"refused by {daemon}", now, kind=daemon.name)
    left = len(here) - len(said.wrong)
    return Verdict((), (), max(task.needs, left + 1), "waits")


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
