"""Agents as tasks of Spark: on the cluster of the session that is active, on a standalone one, or on one embedded in this process.

Workers that are of use only together are a barrier stage: when one is lost, Spark ends all, and their job is submitted again, on a
cluster that has shrunk with as many as there is room for. Others are the tasks of an ordinary stage, and Spark runs the one that was lost
elsewhere.

Spark says nothing when it waits, so its own books are looked at twice a second (spark_watch.py decides what they mean).
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Iterable
from typing import Any, Final, final

from laminar.launch import spark_session
from laminar.launch.protocol import Call, Trouble
from laminar.launch.spark_session import Session
from laminar.launch.spark_task import be_agent
from laminar.launch.spark_watch import TaskSeen, Watch, ended_by_a_task, shortened

LOOK: Final = 0.5  # seconds between looks
SOON: Final = 0.1  # the same, while there are too few executors to begin with
FAILURES: Final = 3  # of the whole job that no task explains, after which it is not tried again
LEAVE: Final = 10.0  # seconds in which a job that was cancelled ends


@final
class SparkLauncher:
    name = "spark"
    fixed: int | None = None
    whole = True  # of a barrier stage

    def __init__(self, master: str | None = None) -> None:
        """`master`: spark://host:7077, or whatever Spark takes for one; None: the active session, or an embedded cluster."""
        self._master = master
        self._session: Session | None = None
        self._agents: _Agents | None = None
        self._off = threading.Event()  # nobody needs them any more

    def begin(self) -> None:
        """Load Spark's library, while others read a stack file. If there is none, that is told when it is needed."""
        threading.Thread(target=spark_session.load, name="laminar-load-spark", daemon=True).start()

    @property
    def own(self) -> bool:
        return spark_session.would_be_own(self._master)

    @property
    def host(self) -> str:
        return spark_session.address(self._master)

    def start(self, agents: int, call: Call, *, together: bool) -> None:
        self.stop()
        self._session = spark_session.open_session(self._master, agents, self._off)
        self._agents = _Agents(self._session, agents, call, together=together)

    def call_off(self) -> None:
        self._off.set()

    def trouble(self) -> list[Trouble]:
        return self._agents.trouble() if self._agents is not None else []

    def comes_back(self) -> bool:
        return self._agents is not None and not self._agents.watch.hopeless

    def most(self) -> int | None:
        watch = self._agents.watch if self._agents is not None else None
        return watch.tasks if watch is not None and watch.tasks < watch.wanted else None

    def stop(self) -> None:
        if self._agents is not None:
            self._agents.stop()
            self._agents = None
        if self._session is not None:
            self._session.close()
            self._session = None


@final
class _Agents:
    """One job at a time, submitted by one thread and watched by another: a JVM that hangs must not hang the chief."""

    def __init__(self, session: Session, agents: int, call: Call, *, together: bool) -> None:
        self._session, self._call, self._together = session, call, together
        self.watch = Watch(agents, together)
        self._group = f"laminar-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._troubles: list[Trouble] = []
        self._cores = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._work, self._look)]
        for thread in self._threads:
            thread.start()

    def trouble(self) -> list[Trouble]:
        with self._lock:
            found, self._troubles = self._troubles, []
        return found

    def stop(self) -> None:
        self._over.set()
        self._cancel()
        for thread in self._threads:
            thread.join(LEAVE)

    def _cancel(self) -> None:
        def cancel() -> None:
            with contextlib.suppress(Exception):  # a JVM that is gone has no jobs
                self._session.context.cancelJobGroup(self._group)

        thread = threading.Thread(target=cancel, daemon=True)
        thread.start()
        thread.join(LEAVE)

    def _tell(self, troubles: Iterable[Trouble]) -> None:
        with self._lock:
            self._troubles += troubles

    # The job

    def _work(self) -> None:
        failures = 0
        while not self._over.is_set() and not self.watch.hopeless:
            tasks = self.watch.tasks
            if self._together and self._cores < tasks:  # Spark would look again only after 15 s
                self._over.wait(SOON / 5)
                continue
            try:
                self._run(tasks)
                self._over.set()  # all have left
            except Exception as error:
                self._over.wait(LOOK)  # until Spark's books have what has happened
                self._cores = 0  # counted again at the next look: an executor may be gone
                why = _java(error)
                if self._over.is_set() or self.watch.tasks != tasks or (self._together and ended_by_a_task(why)):
                    continue
                failures += 1
                self.watch.hopeless = self.watch.hopeless or failures >= FAILURES
                self._tell(Trouble(slot, f"the job of Spark failed: {shortened(why)}") for slot in range(tasks))

    def _run(self, tasks: int) -> None:
        context = self._session.context
        context.setJobGroup(self._group, f"laminar: {tasks} workers", interruptOnCancel=True)
        slots = context.parallelize(range(tasks), tasks)
        agent = functools.partial(be_agent, self._call.address, self._call.token)
        if self._together:
            slots.barrier().mapPartitionsWithIndex(agent).collect()
        else:
            slots.mapPartitionsWithIndex(agent).collect()

    # The books

    def _look(self) -> None:
        while not self._over.wait(LOOK if self._cores >= self.watch.tasks else SOON):
            before = self.watch.tasks
            try:
                tasks = self._tasks()
                ours = sum(task.state == "RUNNING" for task in tasks)
                self._cores = self._free_cores() + ours
                found = self.watch.look(tasks, self._cores, time.monotonic())
            except Exception as error:
                if self._over.is_set():
                    return
                self.watch.hopeless = True
                why = f"Spark does not answer any more: {shortened(_java(error))}"
                self._tell(Trouble(slot, why) for slot in range(before))
                return
            self._tell(found)
            if self.watch.tasks != before:
                self._cancel()  # to be submitted again, smaller

    def _tasks(self) -> list[TaskSeen]:
        """Of all jobs of the group; the status store has them also without a user interface."""
        store, tracker = self._store(), self._session.context.statusTracker()
        found = []
        for job in tracker.getJobIdsForGroup(self._group):
            about = tracker.getJobInfo(job)
            for stage in about.stageIds if about is not None else ():
                last = tracker.getStageInfo(stage)
                for attempt in range(last.currentAttemptId + 1 if last is not None else 0):
                    found += [_task(task, f"{stage}.{attempt}") for task in _each(store.taskList(stage, attempt, 10_000))]
        return found

    def _free_cores(self) -> int:
        """Of the executors that are up; other jobs of the session may have some."""
        return sum(int(one.totalCores() - one.activeTasks()) for one in _each(self._store().executorList(True)))

    def _store(self) -> Any:
        return self._session.context._jsc.sc().statusStore()


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _task(task: Any, stage: str) -> TaskSeen:
    duration = task.duration()
    return TaskSeen(
        number=task.taskId(),
        slot=task.index(),
        state=task.status(),
        stage=stage,
        host=task.host(),
        executor=task.executorId(),
        seconds=duration.get() / 1000 if duration.isDefined() else 0.0,
        error=task.errorMessage().get() if task.errorMessage().isDefined() else "",
    )


def _java(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString() if java is not None else error)
