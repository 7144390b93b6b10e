"""Beside: epochs that an evaluator tests while the team trains on. Who tests changes nothing of what is learned.

At the end of an epoch all members agree whether the evaluator takes it: it does when it is there and has nothing else to do, otherwise they
test it themselves, as they would without one. Member 0 hands the tensors over, hears the figures later, and tells epochs in their order.
Where somebody waits for figures (a target, patience, a checkpoint, the end), `settle` brings them to all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, Protocol, final

from torch import Tensor

from laminar.train.evaluate import SUMS, figures
from laminar.train.history import History, Untold
from laminar.train.snapshot import Run, changing
from laminar.train.team import Team

LOOK: Final = 0.5  # seconds that member 0 waits for figures before it says to the others that it is still here
HURRY: Final = 5.0  # seconds that are waited for figures where the process is asked to end

Metrics = dict[str, float]
Ended = dict[str, Any]  # what there is to tell of an epoch (history.py), but how it was tested


class Lost(Exception):
    """The evaluator is gone, with what it was to test."""


class Tester(Protocol):
    """An evaluator, as member 0 sees it."""

    @property
    def here(self) -> bool: ...

    @property
    def free(self) -> bool:
        """Is it here, with nothing to do?"""

    def test(self, tensors: Mapping[str, Tensor]) -> Future[list[float]]:
        """The sums (evaluate.py) over the test split, of a model with these tensors as they are now. Lost, if it does not come to that."""

    def arrived(self) -> list[dict[str, Any]]:
        """Processes that have come since the last time: role, rank, pid, host."""


@final
class Beside:
    def __init__(self, run: Run, team: Team, history: History | Untold, judged: Callable[[Ended, Metrics], None]) -> None:
        """`judged`: hears the figures of each epoch, in their order."""
        self._run, self._team, self._history, self._judged = run, team, history, judged
        self._tester = run.job.tester  # of member 0
        self._waiting: deque[tuple[Ended, Future[list[float]] | Metrics]] = deque()
        self._newest: Ended | None = None  # an epoch whose figures the other members do not know
        self._sums: list[float] | None = None  # of that one, once they are known

    def takes(self, ended: Ended) -> bool:
        """By all members. Does the evaluator test this epoch?"""
        taken = bool(self._team.sum([float(self._tester is not None and self._tester.free)])[0])
        if taken:
            self._newest, self._sums = {**ended, "by": "evaluator"}, None
            if self._tester is not None:
                self._waiting.append((self._newest, self._tester.test(dict(changing(self._run.job)))))
        return taken

    def tested(self, ended: Ended, metrics: Metrics) -> None:
        """The members have tested this epoch themselves: told after those that the evaluator has not answered yet."""
        self._newest, self._sums = None, None
        self._waiting.append((ended, metrics))
        self.hear()

    def hear(self) -> None:
        """Tell what is known by now."""
        for process in self._tester.arrived() if self._tester is not None else []:
            self._history.tell("worker", **process)
        while self._waiting and not self._can_be_tested_again():
            ended, found = self._waiting[0]
            if isinstance(found, Future) and not found.done():
                return
            self._waiting.popleft()
            self._tell(ended, found)

    def settle(self, test: Callable[[], Metrics], *, hurry: bool = False) -> None:
        """By all members, until every epoch is told and all know the newest figures. `test`: tests what the model is now, by all of them:
        an evaluator that died over the epoch that was just made is not missed. `hurry`: nobody has time for that."""
        waited = 0.0
        while True:
            again, left = self._wait(waited, hurry=hurry)
            known = self._sums is not None
            *sums, known_, again_, left_ = self._team.sum([*(self._sums or [0.0] * SUMS), float(known), float(again), float(left)])
            if not left_:
                break
            waited += LOOK
        ended, self._newest, self._sums = self._newest, None, None
        if ended is not None and again_:
            del ended["by"]
            self._judged(ended, test())
        elif ended is not None and known_ and self._team.rank:  # member 0 has told it
            self._judged(ended, self._figures(sums))

    def _wait(self, waited: float, *, hurry: bool) -> tuple[bool, bool]:
        """Is the newest epoch to be tested again, and is something left to wait for? At most LOOK seconds."""
        self.hear()
        if not self._waiting:
            return False, False
        ended, found = self._waiting[0]
        if hurry and waited >= HURRY:
            self._waiting.clear()
            self._history.tell("note", why=f"epoch {ended['epoch']} was not tested: its test was under way when the training was stopped")
            return False, False
        if self._can_be_tested_again() and not hurry:
            self._waiting.clear()
            return True, False
        assert isinstance(found, Future)
        wait([found], LOOK)
        return False, True

    def _can_be_tested_again(self) -> bool:
        """Is the first that is waited for the newest epoch, not gone on from, and nobody at it?"""
        ended, found = self._waiting[0]
        if ended is not self._newest or ended["step"] != self._run.progress.step or not isinstance(found, Future):
            return False
        if found.done():
            return isinstance(found.exception(), Lost)
        return self._tester is not None and not self._tester.here

    def _tell(self, ended: Ended, found: Future[list[float]] | Metrics) -> None:
        if not isinstance(found, Future):
            self._judged(ended, found)
            return
        try:
            sums = found.result()
        except Lost as error:
            self._history.tell("note", why=f"epoch {ended['epoch']} was not tested: {error}")
            return
        if ended is self._newest:
            self._sums = sums
        self._judged(ended, self._figures(sums))

    def _figures(self, sums: Sequence[float]) -> Metrics:
        data = self._run.job.data
        return figures(sums, data.test.y, task=data.task)
