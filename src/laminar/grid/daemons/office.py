"""Office: the daemons at work. All in one process, woken when there is something to do; or some of them, on a machine of their own.

A daemon that fails on a run stops that run, says why, and goes on with the others: one bad run must not stop a grid.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Final, final

from laminar.grid.daemons import file_deleter, purger, transitioner, validator, work_generator
from laminar.grid.daemons.assimilator import Assimilator
from laminar.grid.daemons.feeder import Feeder
from laminar.grid.db import runs
from laminar.grid.db.book import Tx
from laminar.grid.desk import Desk

NAMES: Final = ("work generator", "transitioner", "validator", "assimilator", "file deleter", "purger")
LOOK: Final = 1.0  # seconds between looks for what nobody says: time, and what other processes have done
HOUSEKEEPING: Final = 60.0  # seconds between looks at versions and rows that are no longer needed
log = logging.getLogger("laminar.grid")


@final
class Office:
    def __init__(
        self,
        desk: Desk,
        assimilator: Assimilator,
        clock: Callable[[], float],
        *,
        feeder: Feeder | None = None,
        on_work: Callable[[], None] = lambda: None,
        only: Collection[str] = NAMES,
    ) -> None:
        self._desk, self._assimilator, self._clock, self._only = desk, assimilator, clock, frozenset(only)
        self._feeder, self._on_work = feeder, on_work
        self._claim = desk.book.postgres
        self._due: float | None = None  # when time has something to do
        self._tidied = -HOUSEKEEPING
        self._wake, self._over = threading.Event(), False
        self._thread: threading.Thread | None = None

    # As a thread

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="laminar-grid-office", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """An answer has come, or somebody has changed something."""
        self._wake.set()

    def close(self) -> None:
        self._over = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over:
            try:
                self.turn()
            except Exception:
                log.exception("a daemon failed; it tries again")
                self._wake.clear()
                self._wake.wait(LOOK)
                continue
            self._wake.wait(LOOK)
            self._wake.clear()

    # One turn

    def turn(self) -> bool:
        """Everything there is to do now; True if there was something."""
        did = False
        while self._desk.do(self._answers) and not self._over:
            did = True
        now = self._clock()
        if self._due is None or now >= self._due:
            did |= self._desk.do(self._time)
            while self._desk.do(self._answers):
                did = True
        if now - self._tidied >= HOUSEKEEPING:
            self._tidied = now
            self._desk.do(self._tidy)
        return did

    def _answers(self, tx: Tx) -> bool:
        """Validate, assimilate, make tasks. True if there may be more."""
        now, more = self._clock(), False
        open_runs = runs.all_of(tx, "open")
        if "validator" in self._only and validator.validate(tx, now, claim=self._claim):
            self._told()
        for run in open_runs:
            try:
                if "assimilator" in self._only:
                    more |= self._assimilator.assimilate(tx, run.id, now)
                if "work generator" in self._only:
                    fresh = runs.get(tx, run.id, for_update=self._claim)  # or two of a kind would make the same tasks
                    if fresh is not None and fresh.state == "open" and work_generator.generate(tx, fresh, now):
                        self._told()
            except Exception as error:
                self._fail(run.id, error)
                raise
        if "file deleter" in self._only:
            file_deleter.delete(tx, now, claim=self._claim)
        return more

    def _fail(self, run: int, error: Exception) -> None:
        """In a transaction of its own, after this one is undone."""
        why = f"{type(error).__name__}: {error}"[:200]
        log.error("run %s is paused: %s", run, why)
        self._desk.submit(lambda tx: runs.save(tx, run, state="paused", why=why))

    def _time(self, tx: Tx) -> bool:
        now, did = self._clock(), False
        if self._claim:
            self._told()  # other processes may have made work
        if "transitioner" in self._only:
            if transitioner.expire(tx, now):
                did = True
                self._told()
            for run in runs.due(tx, now):
                did |= self._assimilator.tick(tx, run, now)
            if self._feeder is not None and len(self._feeder):
                self._on_work()  # who may check whom is drawn anew
            due = transitioner.next_time(tx)
            self._due = now + LOOK if due is None else max(now, min(due, now + LOOK))
        return did

    def _tidy(self, tx: Tx) -> None:
        if "file deleter" in self._only:
            file_deleter.delete_versions(tx)
        if "purger" in self._only:
            purger.purge(tx, self._clock())

    def _told(self) -> None:
        if self._feeder is not None:
            self._feeder.changed()
        self._on_work()
