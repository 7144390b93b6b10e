"""Office: the daemons at work. All in one process, woken when there is something to do; or some of them, on a machine of their own.

A daemon that fails on a run stops that run, says why, and goes on with the others: one bad run must not stop a grid.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, final

from laminar.grid.daemons import file_deleter, purger, transitioner, validator, work_generator
from laminar.grid.daemons.assimilator import Assimilator
from laminar.grid.daemons.feeder import Feeder
from laminar.grid.daemons.own import OwnFailed
from laminar.grid.db import runs
from laminar.grid.db.book import Tx
from laminar.grid.desk import Desk
from laminar.grid.trouble import Trouble, passes

NAMES: Final = ("work generator", "transitioner", "validator", "assimilator", "file deleter", "purger")
LOOK: Final = 1.0  # seconds between looks for what nobody says: time, and what other processes have done
SHORTEST: Final = 0.1  # seconds between two looks at what time has brought
HOUSEKEEPING: Final = 60.0  # seconds between looks at versions and rows that are no longer needed
PATIENCE: Final = 3  # failures in a row after which a run is paused
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
        self._last = clock()  # to see it go back
        self._failing: tuple[int, str] | None = None  # the run on which a daemon has just failed, and how
        self._failures: dict[int, int] = {}  # in a row
        self._trouble = Trouble("the daemons wait")
        self._wake, self._over = threading.Event(), False
        self._thread: threading.Thread | None = None

    @property
    def locks_runs(self) -> bool:
        """Answers are assimilated where they come in, and others may do so too (PostgreSQL)."""
        return self._claim and "assimilator" in self._only

    # As a thread

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="laminar-grid-office", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Somebody has changed something. Answers wake nobody: what they lead to is done where they come in (`at_once`)."""
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
            except Exception as error:
                if passes(error):
                    self._trouble.tell(error)
                else:
                    log.exception("a daemon failed; it tries again")
                self._wake.clear()
                self._wake.wait(LOOK)
                continue
            self._trouble.over()
            due = LOOK if self._due is None else self._due - self._clock()
            self._wake.wait(min(LOOK, max(SHORTEST, due)))
            self._wake.clear()

    # One turn

    def turn(self) -> bool:
        """Everything there is to do now; True if there was something."""
        try:
            did = self._work()
        except OwnFailed as error:
            self._pause(error.run, f"{error.message} [{error.code}]")
            return True
        except Exception:
            self._after_failure()
            raise
        self._failures.clear()
        now = self._clock()
        if now - self._tidied >= HOUSEKEEPING:
            self._tidied = now
            self._desk.do(self._tidy)
        return did

    def _work(self) -> bool:
        did = False
        while self._desk.do(self._answers) and not self._over:
            did = True
        now = self._clock()
        back, self._last = now < self._last - 1, now
        if self._due is None or not now < self._due <= now + LOOK:
            did |= self._desk.do(self._leases) > 0
            did |= self._desk.do(lambda tx: self._time(tx, back=back))
            while self._desk.do(self._answers):
                did = True
        return did

    def feed(self, tx: Tx, asks: int) -> None:
        """Before so many ask in a transaction."""
        if self._feeder is not None and asks:
            self._feeder.fill(tx, asks)

    def at_once(self, tx: Tx, answered: Mapping[int, int]) -> None:
        """In the transaction in which answers have come (tasks, and their runs): what they lead to. Daemons of other packages may take long
        and fail: they are asked in a transaction of their own."""
        if "validator" not in self._only or "assimilator" not in self._only:
            return
        now = self._clock()
        slow = {id for id in set(answered.values()) if (known := runs.get(tx, id)) is not None and known.settings.daemons}
        if slow:
            answered = {task: id for task, id in answered.items() if id not in slow}
            self._wake.set()
        found = validator.validate(tx, now, answered)
        if found.asked:
            self._told()
        for run, good in found.good.items():
            stepped = self._assimilator.assimilate(tx, run, now, good)
            fresh = runs.get(tx, run)
            if stepped or (fresh is not None and fresh.settings.grid.mode == "async"):  # where there is always something to do
                self._generate(tx, run, now)

    def _answers(self, tx: Tx) -> bool:
        """Validate, assimilate, make tasks. True if there may be more."""
        now, more = self._clock(), False
        if "validator" in self._only and validator.validate(tx, now).asked:
            self._told()
        for run in runs.all_of(tx, "open"):
            try:
                if "assimilator" in self._only:
                    more |= self._assimilator.assimilate(tx, run.id, now)
                self._generate(tx, run.id, now)
            except Exception as error:
                if not passes(error) and not isinstance(error, OwnFailed):
                    self._failing = run.id, f"{type(error).__name__}: {error}"[:200]
                raise
        if "file deleter" in self._only:
            file_deleter.delete(tx, now, claim=self._claim)
        return more

    def _generate(self, tx: Tx, run: int, now: float) -> None:
        if "work generator" in self._only:
            fresh = runs.get(tx, run, for_update=self._claim)  # or two of a kind would make the same tasks
            if fresh is not None and fresh.state == "open" and work_generator.generate(tx, fresh, now):
                self._told()

    def _after_failure(self) -> None:
        """A run on which a daemon fails again and again is paused, and says why; a database that is away comes back."""
        if self._failing is None:
            return
        (run, why), self._failing = self._failing, None
        self._failures[run] = self._failures.get(run, 0) + 1
        if self._failures[run] >= PATIENCE:
            self._pause(run, why)

    def _pause(self, run: int, why: str) -> None:
        """A daemon of another package gets no second try: what it failed on is still here."""
        log.error("run %s is paused: %s", run, why)
        self._desk.do(lambda tx: runs.save(tx, run, state="paused", why=why[:200]))

    def _leases(self, tx: Tx) -> int:
        """In a transaction of its own: what it locks are tasks, and the next locks runs first."""
        ended = transitioner.expire(tx, self._clock()) if "transitioner" in self._only else 0
        if ended:
            self._told()
        return ended

    def _time(self, tx: Tx, *, back: bool = False) -> bool:
        now, did = self._clock(), False
        if self._claim:
            self._told()  # other processes may have made work
        if "transitioner" in self._only:
            for run in [one.id for one in runs.all_of(tx, "open")] if back else runs.due(tx, now):
                did |= self._assimilator.tick(tx, run, now, anyway=back)
            if self._feeder is not None and not self._feeder.empty:
                self._on_work()  # who may check whom is drawn anew; and a task may have come back
            due = transitioner.next_time(tx)
            self._due = now + LOOK if due is None else max(now, min(due, now + LOOK))
        return did

    def _tidy(self, tx: Tx) -> None:
        if "file deleter" in self._only:
            file_deleter.delete_versions(tx)
            file_deleter.delete_files(tx, self._clock())
            file_deleter.delete_custody(tx, self._clock())
        if "purger" in self._only:
            purger.purge(tx, self._clock())

    def _told(self) -> None:
        if self._feeder is not None:
            self._feeder.changed()
        self._on_work()
