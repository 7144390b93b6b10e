"""Keeper: the loop of a node. Asks for work, fetches what it needs, has it done, brings the answer, and minds the owner meanwhile.

Everything that is under way is on the disk (home.py): after a reboot, or a kill, it goes on where it was. An answer is brought together
with the request for what to do next, so that a task of a small model costs one request.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.grid.node import habits
from laminar.grid.node.client import Backoff, Client, Refusal, Unreachable
from laminar.grid.node.computers import Computers
from laminar.grid.node.home import Home
from laminar.grid.node.kernels import Kernels
from laminar.grid.node.limits import SHORT, Limits, rests
from laminar.grid.node.machine import Watcher, facts
from laminar.grid.node.memory_limit import CODE, too_much
from laminar.grid.node.sent import Sent
from laminar.grid.node.supplies import Supplies
from laminar.grid.node.tidy import DAY, Tidy
from laminar.grid.node.too_large import TooLarge
from laminar.grid.utilization import Part, Timesheet
from laminar.grid.wire.messages import Ask, Facts, Task, Work

WAIT: Final = 20.0  # seconds that the server may hold a request
LOOK: Final = 0.5  # seconds between looks at the machine
FULL: Final = "L301"  # the disk is full: no fault of the task
DENIED: Final = "L302"  # so does Windows while something else looks into a file
LEASES, SHORTEST_LIMIT = 4, 3600.0  # a task may compute for this many leases, but at least this many seconds
HEARD: Final = 64  # verdicts that a request may say to have heard
_ASK: Final = "ask whoever runs the grid, or join again with another token"
FINAL: Final = {  # refusals after which asking again is of no use, and what is
    "banned": _ASK,
    "unknown": _ASK,
    "token": _ASK,
    "version": "pip install the release of laminar-train that the server has; what is under way here is kept",
}
Tell = Callable[[str], None]


@final
class Keeper:
    def __init__(
        self,
        home: Home,
        client: Client,
        limits: Limits,
        name: str,
        tell: Tell,
        *,
        kernels: Kernels | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._home, self._client, self._limits, self._name, self._tell = home, client, limits, name, tell
        self._kernels = kernels or Kernels(None, tell)
        self._computer = Computers(home, limits, self._kernels.folder)
        self._watcher = Watcher(home.root, only_idle=limits.only_idle)
        self._stop = stop or threading.Event()
        self._backoff = Backoff()
        self._habits = habits.Habits(habits.read(home.habits_path), cpu=limits.cpu)
        self._client.up, self._client.down = self._habits.up, self._habits.down
        self._habits_again = time.monotonic() + habits.EVERY
        self._rested = 0.0
        self._times = Timesheet(time.monotonic())
        self._resting, self._looked, self._look_again = "", time.monotonic(), 0.0
        self._ready: list[Task] = []  # fetched, and not computed yet
        self._cannot: list[tuple[int, str]] = []
        self._samples: dict[str, None] = {}  # run/sample on this disk
        self._supplies = Supplies(home, client)
        home.sweep()
        self._sent = Sent(home)  # answered, and not known to be used
        self._tidy, self._tidy_again = Tidy(home, client, self._sent), 0.0
        self._heard: list[int] = []  # verdicts that are settled
        self._told: Facts | None = None
        self._no_work = ""  # why, as it was told
        self._most: int | None = None
        self._too_large = TooLarge(home.root, limits.memory)
        self.done = 0

    def run(self, most: int | None = None) -> int:
        """Until it is told to stop, or so many answers were brought. How many."""
        self._most = most
        try:
            self._ready = self._home.tasks()
            if self._ready:
                self._tell(f"goes on with {len(self._ready)} tasks from before")
            while not self._stop.is_set() and self._goes_on(0):
                if self._minds_owner():
                    self._stop.wait(LOOK)
                    continue
                try:
                    self._turn()
                except (Unreachable, OSError, msgspec.DecodeError) as error:
                    self._later(str(error))
                except LaminarError as error:
                    if error.code not in (FULL, DENIED):
                        raise
                    self._later(error.message)
                except Refusal as error:
                    if error.error in FINAL:
                        raise LaminarError(
                            "L503", f"the server turns this node away ({error.error}): {error}", hint=FINAL[error.error]
                        ) from error
                    self._tell(f"refused: {error}")
                    self._stop.wait(self._backoff.failed())
        finally:
            self._computer.end()
            self._keep_habits()
        return self.done

    def _later(self, why: str) -> None:
        if self._stop.is_set():  # nothing is wrong: the line was hung up
            return
        self._unless_gone(why)
        wait = self._backoff.failed()
        self._tell(f"{why}; again in {wait:.0f} s")
        self._stop.wait(wait)

    def _unless_gone(self, why: str) -> None:
        if self._home.gone:
            raise LaminarError(
                "L503",
                f"the folder {self._home.root} of this node is gone, and its key and its tasks with it ({why})",
                hint="laminar grid join URL --token-file FILE makes a new node",
            )

    def _goes_on(self, more: int) -> bool:
        """After so many more answers?"""
        return self._most is None or self.done + more < self._most

    # The owner

    def _minds_owner(self) -> str:
        """Why the node rests, if it must; what computes is stopped within LOOK."""
        if time.monotonic() < self._look_again:
            return self._resting
        now = time.monotonic()
        self._rested += now - self._looked if self._resting else 0.0
        self._habits.spent(now - self._looked, resting=bool(self._resting), now=time.time())
        if now >= self._habits_again:
            self._keep_habits()
        self._looked, self._look_again = now, now + LOOK
        self._unless_gone("somebody has deleted it")
        own = [os.getpid(), *self._computer.pids]
        why = rests(self._limits, self._watcher.look(own))
        if not why and self._limits.memory is not None and self._computer.memory() > self._limits.memory:
            self._computer.end(too_much(self._limits.memory), CODE)
        if why.startswith(SHORT):
            self._computer.end(why)  # not stopped: its memory is what the owner needs
        if why != self._resting:
            self._computer.rest(bool(why))
            self._times.rests(bool(why), time.monotonic())
            self._tell(f"rests: {why}" if why else "works")
            self._resting = why
        return why

    @contextlib.contextmanager
    def _at(self, part: Part) -> Iterator[None]:
        """What takes place inside takes time of this part; outside the node waits."""
        self._times.at(part, time.monotonic())
        try:
            yield
        finally:
            self._times.at(Part.WAITING, time.monotonic())

    def _keep_habits(self) -> None:
        self._habits_again = time.monotonic() + habits.EVERY
        self._habits.up, self._habits.down = self._client.up, self._client.down
        if not self._home.gone:
            habits.write(self._home.habits_path, self._habits.kept())

    # A turn

    def _turn(self) -> None:
        if not self._ready:
            self._fetch()
        if time.monotonic() >= self._tidy_again:  # with the first task at hand: what it needs is not taken for old
            self._tidy_again = time.monotonic() + DAY
            self._tidy_up()
        if self._ready and not self._minds_owner():  # who came back while the server was asked comes first
            self._compute(self._ready.pop(0))

    def _tidy_up(self) -> None:
        now = time.time()
        if self._tidy.look(now):
            self._computer.end()
        if self._tidy.do(now):
            self._supplies.let_go()

    def _fetch(self) -> None:
        asked = self._asks()
        with self._at(Part.TRANSFER):
            work = self._client.work(asked)
        self._backoff.worked()
        self._take(work)

    def _asks(self) -> Ask:
        report = self._times.report(time.monotonic())
        return Ask(
            want=1,
            wait=WAIT,
            has=list(self._samples)[-64:],
            holds=[task.result for task in self._ready],
            speed=self._habits.speed,
            available=self._habits.available,
            up=self._client.up,
            down=self._client.down,
            cannot=self._cannot[:64],
            without=self._too_large.runs,
            facts=self._new_facts(),
            heard=self._heard[:HEARD],
            versions=self._supplies.newest(),
            report=report.number,
            spent=report.spent,
        )

    def _take(self, work: Work) -> None:
        """What the server answers to a request for work, which it has heard."""
        self._cannot, self._heard = self._cannot[64:], self._heard[HEARD:]
        self._times.heard()
        self._times.was(Part.TRANSFER, Part.WAITING, work.held)
        self._told = self._facts()
        for task in work.tasks:
            self._home.note_task(task)
            self._ready.append(task)
        self._supplies.arrived(work.versions, self._client.after, work.tasks)
        self._settle(work.verdicts)
        if work.tasks or not work.why or work.why == "nothing to do":
            self._no_work = ""
            return
        if work.why != self._no_work:
            self._tell(work.why)
            self._no_work = work.why
        self._stop.wait(min(work.wait, 60.0))

    def _facts(self) -> Facts:
        return facts(self._name, self._limits, self._computer.torch, self._kernels.digests)

    def _new_facts(self) -> Facts | None:
        """At first, since what the server knows may be of another day; then when something has come to light: which torch it has."""
        now = self._facts()
        return None if now == self._told else now

    def _compute(self, task: Task) -> None:
        self._times.on(task.result, time.monotonic())
        try:
            with self._at(Part.TRANSFER):
                self._supplies.provide(task)
        except LaminarError as error:
            self._failed(task, error.message, error.code)
            return
        if task.sample is not None:
            self._samples[f"{task.run}/{task.sample}"] = None
        rested = self._rested
        with self._at(Part.COMPUTING):
            said = self._do(task)
        if said is None:  # told to stop: the task stays on the disk
            return
        if "error" in said:
            self._supplies.forget()
            if said["code"] == CODE:
                self._too_large.note(task.run)
            elif said["code"] == "L706":
                self._kernels.look_again()  # one that was announced is gone, or another by now
            self._failed(task, str(said["error"]), said["code"])
            return
        self._times.was(Part.COMPUTING, Part.TRANSFER, said.get("fetching", 0.0))
        if said.get("seconds") and (self._rested == rested or not self._habits.speed):  # its rest is told by itself (available)
            self._habits.measured(said["samples"] / max(said["seconds"], 1e-6))
        self._bring(task)

    def _do(self, task: Task) -> dict[str, Any] | None:
        if self._home.answer_path(task.result).exists():
            self._computer.ask({"whole": task})
            if (self._wait() or {}).get("whole"):
                return {"result": task.result}
            self._home.answer_path(task.result).unlink(missing_ok=True)
        self._computer.ask({"do": task})
        return self._wait(max(SHORTEST_LIMIT, LEASES * task.lease))

    def _wait(self, most: float = math.inf) -> dict[str, Any] | None:
        """For what the other processes say; the owner comes first meanwhile. They are ended when they have worked for `most` seconds."""
        end, rested = time.monotonic() + most, self._rested
        while not self._stop.is_set():
            said = self._computer.answer(LOOK)
            if said is not None:
                return said
            self._minds_owner()
            if time.monotonic() - (self._rested - rested) > end:
                self._computer.end(f"it computed for more than {most:,.0f} s")
        return None

    def _failed(self, task: Task, why: str, code: str) -> None:
        """Somebody else may do it; but where only the disk is full, it is done here as soon as there is room, or its lease ends."""
        if code == FULL:
            self._ready.insert(0, task)
            self._later(f"task {task.task}: {why}")
        else:
            self._give_back(task, why)

    def _give_back(self, task: Task, why: str) -> None:
        self._tell(f"task {task.task}: {why}")
        self._cannot.append((task.result, " ".join(why.split())[:200]))
        self._home.forget_task(task.result)
        self._home.answer_path(task.result).unlink(missing_ok=True)
        self._stop.wait(self._backoff.failed())

    def _bring(self, task: Task) -> None:
        data = self._home.answer_path(task.result).read_bytes()
        while not self._stop.is_set():
            asked = self._asks() if not self._ready and not self._resting and self._goes_on(1) else None
            try:
                with self._at(Part.TRANSFER):
                    verdict = self._client.answer(task.result, data, asked)
                break
            except Unreachable as error:
                self._later(str(error))
            except Refusal as error:
                if error.error in FINAL:
                    raise
                self._give_back(task, str(error))
                return
        else:
            return
        self._backoff.worked()
        self.done += 1
        if self._home.residual_path(task.run).exists():
            self._sent.add(task)
        else:
            self._home.forget_task(task.result)
            self._home.answer_path(task.result).unlink(missing_ok=True)
        if verdict.state not in ("returned", "valid"):  # else what becomes of it is told with work to come
            self._tell(f"task {task.task}: {verdict.state} ({verdict.reason})")
            self._settle([(task.result, verdict.state, "")])
        if verdict.work is not None:
            self._take(verdict.work)

    def _settle(self, verdicts: list[tuple[int, str, str]]) -> None:
        """What became of answers: those that were not used go back into the residual. What cannot be settled now is told again."""
        unused: dict[tuple[str, str], list[int]] = {}
        refused: dict[str, list[int]] = {}
        for result, state, used in verdicts:
            task = self._sent.of(result)
            if task is None:
                self._heard.append(result)
            elif state == "late" or used in ("dropped", "extra"):
                unused.setdefault((task.run, task.about), []).append(result)
            elif state == "invalid":  # what the server has on account is no longer what is here: begin anew
                refused.setdefault(task.run, []).append(result)
            else:
                self._settled([result])
        for (run, about), results in unused.items():
            with self._at(Part.COMPUTING):
                self._computer.ask({"put back": {"run": run, "about": about, "results": results}})
                if "put back" in (self._wait() or {}):
                    self._settled(results)
        for run, results in refused.items():
            with self._at(Part.COMPUTING):
                self._computer.ask({"forget": {"run": run, "results": results}})
                if "forget" in (self._wait() or {}):
                    self._settled(results)

    def _settled(self, results: list[int]) -> None:
        for result in results:
            self._sent.settled(result)
        self._heard += results
