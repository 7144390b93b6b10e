"""Assimilator: good answers go through the aggregator into the next version, in one transaction with it.

So an answer is in a version, or still to be taken, and never both: whatever is killed when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from laminar.grid.daemons import own
from laminar.grid.daemons.accounting import keeps_back
from laminar.grid.daemons.own import OwnFailed
from laminar.grid.daemons.rounds import act, drop, give_time, wind_up
from laminar.grid.db import runs, tasks, uploads, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.runs import Run
from laminar.grid.db.sheets import load_tasks
from laminar.grid.settings import WORKER, Settings
from laminar.grid.wire.model_bytes import digest
from laminar.parallel.aggregate.aggregator import Aggregator
from laminar.parallel.aggregate.messages import Apply, Finish, Gradient, Joined, Tick

AT_ONCE: Final = 1024


class Learner(Protocol):
    """Makes a version of the one before and of answers (learner.py)."""

    def begin(self, settings: Settings) -> bytes:
        """The optimizer's state before anything was learned."""

    def step(
        self, settings: Settings, version: bytes, optimizer: bytes, parts: list[tuple[float, list[bytes]]], position: int
    ) -> tuple[bytes, bytes]:
        """The next version and optimizer. `parts`: weight, and the answers to one task, of which the mean is taken."""


@final
class Assimilator:
    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def start(self, tx: Tx, run: Run, now: float) -> None:
        """A new run: its first round opens."""
        machine = runs.aggregator(tx, run)
        act(tx, run, machine.on(Joined(WORKER, now)), now, self.learn)
        runs.keep_aggregator(tx, run.id, machine, sequence=0)

    def reopen(self, tx: Tx, run: Run, now: float) -> None:
        """A run that was stopped goes on where it was."""
        state = runs.aggregator(tx, run).state()
        machine = Aggregator.load(run.settings.rules, {**state, "finished": False, "open": False, "ends": None})
        runs.save(tx, run.id, state="open", why="", ended=None)
        act(tx, run, machine.on(Joined(WORKER, now)), now, self.learn)
        runs.keep_aggregator(tx, run.id, machine, sequence=run.sequence)

    def assimilate(self, tx: Tx, id: int, now: float, good: Sequence[int] | None = None) -> bool:
        """Take in what is good; True if there may be more to do. `good`: results that were just found so; else all that there are."""
        run = runs.get(tx, id, for_update=True)
        if run is None or run.state != "open":
            return False
        ids = [row.id for row in tasks.to_do(tx, tasks.ASSIMILATE, run=id, limit=AT_ONCE)] if good is None else good
        if not ids:
            return False
        tasks.load_answers(tx, ids)
        machine, sequence, stepped = runs.aggregator(tx, run), run.sequence, False
        give_time(tx, run, machine, now)
        for result in ids:
            row = tasks.result(tx, result)
            task = tasks.task(tx, row.task)
            # what was asked for, never what the node says; and who says to be fast gets a larger task, but no larger say
            work = float(min(task.steps, run.settings.grid.local_steps) * run.settings.recipe.batch)
            event = Gradient(
                worker=WORKER,
                sequence=sequence,
                base=task.version,
                payload=str(row.task),
                now=now,
                round=task.round if run.settings.grid.mode == "rounds" else None,
                work=work,
            )
            sequence += 1
            tasks.mark(tx, [row.id], todo=None)
            stepped |= act(tx, run, machine.on(event), now, self.learn)
            if machine.version >= run.settings.rounds:
                break
        runs.keep_aggregator(tx, id, machine, sequence=sequence)
        if machine.version >= run.settings.rounds:
            self.finish(tx, run, now, "all rounds are done")
            return True
        return stepped or len(ids) == AT_ONCE

    def tick(self, tx: Tx, id: int, now: float, *, anyway: bool = False) -> bool:
        """A round's time may be up. `anyway`: the clock has gone back, and the aggregator is to know."""
        run = runs.get(tx, id, for_update=True)
        if run is None or run.state != "open":
            return False
        machine = runs.aggregator(tx, run)
        if not anyway and (machine.wakes is None or machine.wakes > now):
            return False
        give_time(tx, run, machine, now)
        act(tx, run, machine.on(Tick(now)), now, self.learn)
        runs.keep_aggregator(tx, id, machine, sequence=run.sequence)
        if machine.version >= run.settings.rounds:
            self.finish(tx, run, now, "all rounds are done")
        return True

    def finish(self, tx: Tx, run: Run, now: float, why: str, state: str = "done") -> None:
        """Nothing more is taken. What waits is given up; what is under way will be late."""
        fresh = runs.get(tx, run.id, for_update=True)
        assert fresh is not None
        machine = runs.aggregator(tx, fresh)
        if machine.version < fresh.settings.rounds:  # stopped by somebody: what is held becomes the last step
            try:
                act(tx, fresh, machine.on(Finish(now)), now, self.learn)
                runs.keep_aggregator(tx, run.id, machine, sequence=fresh.sequence)
            except OwnFailed as error:  # it must not keep a run from ending
                why = f"{why}; without a last step: {error.message}"[:200]
        runs.forget_empty_round(tx, run.id)
        runs.save(tx, run.id, state=state, ended=now, why=why)
        for row in tasks.to_do(tx, tasks.ASSIMILATE, run=run.id, limit=1 << 20):
            drop(tx, fresh, row.task, why, now)
        for id in tasks.open_tasks(tx, run.id):
            wind_up(tx, fresh, id, why, now, wait=False)

    def learn(self, tx: Tx, run: Run, action: Apply, now: float) -> None:
        before = versions.get(tx, run.id, action.version - 1)
        load_tasks(tx, [int(part.payload) for part in action.parts])
        good = {
            part.payload: [row for row in tasks.results_of(tx, int(part.payload)) if row.state == "valid" and row.used in (None, "with")]
            for part in action.parts
        }
        used = [row for rows in good.values() for row in rows]
        data_of = uploads.read_all(tx, [row.id for row in used])
        parts = [(part.weight, [data_of[row.id] for row in good[part.payload]]) for part in action.parts]
        position = run.sequence  # answers so far
        daemon = run.settings.own("assimilator")
        if daemon is not None:
            data, optimizer = own.step(run, daemon, bytes(before.data), bytes(before.optimizer), parts)
        else:
            data, optimizer = self._learner.step(run.settings, bytes(before.data), bytes(before.optimizer), parts, position)
        versions.put(tx, run.id, action.version, digest(data), data, optimizer, now)
        uploads.drop(tx, [row.id for row in used])
        for row in used:  # who keeps nothing back need not be told
            tasks.mark(tx, [row.id], used="applied", todo=None, tell=row.node if keeps_back(run) else None)
        steps = sum(tasks.task(tx, int(part.payload)).steps for part in action.parts)  # by each node's speed
        runs.count(tx, run.id, applied=len(action.parts), applied_steps=steps)
