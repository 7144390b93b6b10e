"""Hiring: the chief's side of an evaluator. It is started where somebody waits for one, and again when it dies, but for one that would
only die once more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

from laminar.core.clock import Clock
from laminar.parallel.apart.deaths import MOST, WITHIN, Deaths
from laminar.parallel.crew import Crew, Member

MODULE: Final = "laminar.parallel.evaluation.evaluator_process"
ROLE: Final = "evaluator"


@final
class Hire:
    def __init__(
        self, crew: Crew, job: Mapping[str, Any], token: str, threads: int, note: Callable[[str], None], clock: Clock, who: str
    ) -> None:
        """`job`: open_job.Description as JSON. `note`: hears what becomes of it. `who`: tests where it does not."""
        self._crew, self._note, self._clock, self._who = crew, note, clock, who
        self._brief: dict[str, Any] = {"job": dict(job), "token": token, "threads": threads}
        self._deaths = Deaths()
        self._member: Member | None = None

    def start(self, desk: str) -> None:
        """For the desk at this address; one that works for another is not needed any more."""
        self.end()
        self._brief["desk"] = desk
        self._member = self._crew.start_evaluator(MODULE, self._brief)

    def ended(self, member: Member) -> None:
        """It has; whatever it died of, training goes on."""
        if member is not self._member:
            return
        self._member = None
        if member.error is not None:
            self._note(f"{member.error.message}; {self._who}")
        elif member.done is None:
            luck = self._deaths.add(ROLE, self._clock.monotonic())
            what = "it was started again" if luck else f"that is {MOST} times within {WITHIN:g} s, so {self._who}"
            self._note(f"{member.name} {member.how_it_ended()}; {what}")
            if luck:
                self.start(self._brief["desk"])

    def end(self) -> None:
        """It is not needed any more."""
        if self._member is not None:
            self._member.kill()
            self._member = None
