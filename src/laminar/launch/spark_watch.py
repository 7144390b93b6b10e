"""What a Spark cluster tells of a job of agents: whose task it lost and why, and whether there is room. Pure: what was seen is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

from laminar.launch.protocol import Trouble

ROOM: Final = 20.0  # seconds in which no core came and some are missing, after which it is said: an executor may take that long to start
SHRINK: Final = 10.0  # the same after a loss, when the chief waits for whoever is left
QUICK: Final = 5.0  # seconds: a task that fails earlier was never of use
TRIES: Final = 3  # quick failures of one slot in a row after which it is given up
LONGEST: Final = 300  # characters of a reason


@dataclass(frozen=True)
class TaskSeen:
    number: int  # of this attempt, never again; its agent calls itself so (spark_task.py)
    slot: int
    state: str  # RUNNING, SUCCESS, FAILED, KILLED
    stage: str  # the attempt of the stage that it belongs to
    host: str = ""
    executor: str = ""
    seconds: float = 0.0
    error: str = ""


@final
@dataclass
class Watch:
    """A job of `wanted` tasks, one for each slot, which are all to run at the same time."""

    wanted: int
    together: bool
    tasks: int = field(init=False)  # of the job that runs; fewer than wanted on a cluster that has shrunk
    hopeless: bool = False
    _seen: set[int] = field(default_factory=set)
    _quick: dict[int, int] = field(default_factory=dict)
    _cores: int = -1
    _since: float = 0.0
    _up: bool = False  # all were there once
    _said_room: bool = False

    def __post_init__(self) -> None:
        self.tasks = self.wanted

    def look(self, tasks: Iterable[TaskSeen], cores: int, now: float) -> list[Trouble]:
        """Agents that are in trouble; each is told once. `cores`: those that the job has or could have."""
        tasks = list(tasks)
        running = {task.slot for task in tasks if task.state == "RUNNING"}
        broken = {task.stage for task in tasks if task.state in ("FAILED", "KILLED")} if self.together else set()
        found = []
        for task in tasks:
            if task.state == "RUNNING" and task.seconds > QUICK:
                self._quick.pop(task.slot, None)
            if task.number not in self._seen and (task.state != "RUNNING" or task.stage in broken):
                self._seen.add(task.number)
                found.append(self._ended(task))
        self._up = self._up or len(running) == self.wanted
        told = {trouble.slot for trouble in found}
        found += [trouble for trouble in self._without_room(running, cores, now) if trouble.slot not in told]
        return found

    def _ended(self, task: TaskSeen) -> Trouble:
        """Spark ends all tasks of a barrier stage when one fails: those that still run have seconds left, and are no culprits."""
        if task.state == "FAILED" and task.seconds < QUICK and "ExecutorLostFailure" not in task.error:
            self._quick[task.slot] = self._quick.get(task.slot, 0) + 1
            self.hopeless = self.hopeless or self._quick[task.slot] >= TRIES
        bystander = self.together and task.state in ("KILLED", "RUNNING")
        what = (
            "ended because another worker of its stage was lost"
            if bystander
            else "its agent left"
            if task.state == "SUCCESS"
            else shortened(task.error)
        )
        return Trouble(task.slot, f"executor {task.executor} on {task.host}: {what}", str(task.number), bystander)

    def _without_room(self, running: set[int], cores: int, now: float) -> list[Trouble]:
        """A cluster that has too few now may have more later: nobody is given up for that."""
        if cores != self._cores:
            self._cores, self._since, self._said_room = cores, now, False
        if max(cores, len(running)) >= self.tasks or self._said_room or now - self._since < (SHRINK if self._up else ROOM):
            return []
        self._said_room = True
        wanted = self.tasks
        if self._up and self.together and cores > 0:
            self.tasks = cores
        why = f"the cluster has {cores} free {'core' if cores == 1 else 'cores'}, {wanted} are needed"
        return [Trouble(slot, why) for slot in range(wanted) if slot not in running]


def ended_by_a_task(error: str) -> bool:
    """Did a job of a barrier stage fail because one of its tasks did? Spark retries no such stage; what was wrong is said of the task."""
    return "barrier task" in error or "ExecutorLostFailure" in error


def shortened(error: str) -> str:
    """The line of a report of Spark that says what happened."""
    if "ExecutorLostFailure" in error:
        reason = error.partition("Reason: ")[2] or error
        return f"the executor was lost: {_cut(reason)}"
    if "Traceback (most recent call last)" in error:
        python = error.rpartition("Traceback (most recent call last)")[2].split("\n\tat ")[0]
        lines = [line for line in python.splitlines()[1:] if line and not line[0].isspace()]
        if lines:
            return _cut(lines[-1])
    return _cut(error) or "no reason was given"


def _cut(text: str) -> str:
    line = text.strip().splitlines()[0].strip() if text.strip() else ""
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
