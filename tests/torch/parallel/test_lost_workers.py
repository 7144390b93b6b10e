"""Who is lost when a team has ended."""

from __future__ import annotations

import signal

from laminar.parallel.crew import CALLED_OFF, Member
from laminar.parallel.team_chief import loss


class Ended(Member):
    def __init__(self, rank: int, code: int | None, *, bystander: bool = False) -> None:
        super().__init__("worker", rank, ended=True, bystander=bystander)
        self._code = code

    @property
    def name(self) -> str:
        return f"worker {self.rank}"

    @property
    def code(self) -> int | None:
        return self._code

    def send(self, number: signal.Signals) -> None: ...

    def wait(self, timeout: float) -> bool:
        return True


def test_of_a_stage_that_was_ended_only_the_culprit_is_lost() -> None:
    first, culprit, other = Ended(0, None, bystander=True), Ended(1, None), Ended(2, CALLED_OFF)
    found = loss([first, culprit, other], {culprit: "worker 1 was lost"})
    assert (found.how, found.workers) == ("worker 1 was lost", 1)


def test_where_the_culprit_did_not_train_nobody_is_lost() -> None:
    found = loss([Ended(0, None, bystander=True), Ended(1, None, bystander=True)], {})
    assert (found.how, found.workers) == ("worker 0 left with exit code None", 0)


def test_all_that_were_lost_at_once_are_one_loss() -> None:
    one, other = Ended(0, -9), Ended(1, -9)
    found = loss([one, other], {one: "worker 0 was killed", other: "worker 1 was killed"})
    assert (found.how, found.workers) == ("worker 0 was killed; worker 1 was killed", 2)


def test_a_first_worker_that_was_interrupted_is_lost() -> None:
    assert loss([Ended(0, 130), Ended(1, CALLED_OFF)], {}).workers == 1


def test_who_only_waited_for_too_long_is_not_lost() -> None:
    found = loss([Ended(0, CALLED_OFF), Ended(1, CALLED_OFF)], {})
    assert found.workers == 0 and "none was lost" in found.how
