"""A pool of threads that execute what is ready: wait, take, execute, mark inputs of those that need it, enqueue those that are complete.

The caller takes part. Threads stay for the next run; one that is still busy with a guess that nobody needs comes later. Native code runs
without Python's lock, so that threads run at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from laminar.core.errors import LaminarError
from laminar.kernels.circuit.schedule import Schedule, Task

Execute: TypeAlias = Callable[[Task], dict[str, NDArray[np.generic]]]


class Run:
    """One circuit being executed by several threads."""

    def __init__(self, schedule: Schedule, execute: Execute) -> None:
        self.schedule, self.execute = schedule, execute
        self.changed = threading.Condition()
        self.failed: BaseException | None = None

    def work(self) -> None:
        """Until all is done. Several threads may be in here."""
        while (task := self._take()) is not None:
            began = time.perf_counter()
            try:
                results = self.execute(task)
            except BaseException as error:
                if isinstance(error, LaminarError) and task.on_guess:
                    self._undone(task)  # the guard may well be there to keep it from this
                    continue
                self._fail(error)
                return
            seconds = time.perf_counter() - began
            with self.changed:
                try:
                    self.schedule.done(task, results, seconds)
                except BaseException as error:
                    self.failed = self.failed or error
                self.changed.notify_all()

    def _take(self) -> Task | None:
        with self.changed:
            while self.failed is None:
                try:
                    task = self.schedule.take()
                except BaseException as error:
                    self.failed = self.failed or error
                    break
                if task is not None:
                    if self.schedule.queue:  # of what was made meanwhile
                        self.changed.notify_all()
                    return task
                if self.schedule.over:
                    break
                self.changed.wait()
            self.changed.notify_all()
            return None

    def _undone(self, task: Task) -> None:
        with self.changed:
            self.schedule.undone(task)
            self.changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            self.failed = self.failed or error
            self.changed.notify_all()


class Pool:
    """Threads that join in a run when they are asked to."""

    def __init__(self) -> None:
        self.asked: list[Run] = []
        self.changed = threading.Condition()
        self.idle = 0

    def run(self, schedule: Schedule, execute: Execute, threads: int) -> None:
        """With so many threads, of which the caller is one. What a task raises is raised here."""
        run = Run(schedule, execute)
        self._ask(run, threads - 1)
        try:
            run.work()
        except BaseException as error:  # Ctrl-C: the others end, too
            run._fail(error)
            raise
        finally:
            with self.changed:
                self.asked = [one for one in self.asked if one is not run]
        if run.failed is not None:
            raise run.failed

    def _ask(self, run: Run, helpers: int) -> None:
        with self.changed:
            self.asked += [run] * helpers
            for _ in range(max(0, helpers - self.idle)):
                threading.Thread(target=self._serve, name="laminar-kernel", daemon=True).start()
            self.changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self.changed:
                self.idle += 1
                while not self.asked:
                    self.changed.wait()
                self.idle -= 1
                run = self.asked.pop(0)
            run.work()


_POOL = Pool()


def pool() -> Pool:
    return _POOL


def _after_fork() -> None:
    """Threads do not come along into a forked process."""
    global _POOL
    _POOL = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
