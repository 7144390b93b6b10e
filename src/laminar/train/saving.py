"""Saving: when a run is kept, and the proof that it is worth keeping."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from torch import Tensor

from laminar.core.clock import Clock
from laminar.core.interrupts import Interrupts
from laminar.train import checkpoint
from laminar.train.astray import Astray
from laminar.train.history import END, History, Saved, Untold
from laminar.train.snapshot import Run
from laminar.train.team import NOTHING, SAVE, STOP
from laminar.train.tensor_file import Later

INTERRUPTED: Final = "interrupted"


class Settle(Protocol):
    def __call__(self, *, hurry: bool = False) -> None: ...


@final
@dataclass
class Saving:
    run: Run
    astray: Astray
    history: History | Untold
    interrupts: Interrupts
    clock: Clock
    settle: Settle  # what was given to an evaluator: a run that goes on from here does not hear of it

    def __post_init__(self) -> None:
        self.began = self.saved = self.clock.monotonic()
        self.before = 0.0  # seconds of the run before it was resumed
        self.every = self.run.job.recipe.checkpoint_steps
        self.wished = NOTHING  # by member 0 of the team, for after the step that was made

    def wish(self) -> int:
        """What this member of a team would like all to do after the step under way. Only member 0 may like something."""
        if self.run.job.team is None or self.run.job.team.rank:
            return NOTHING
        due = self.clock.monotonic() - self.saved >= self.run.job.recipe.checkpoint_seconds
        return STOP if self.interrupts.asked else SAVE if due else NOTHING

    def if_due(self, now: float | None = None) -> None:
        """A checkpoint after so many seconds, after so many steps where the recipe asks for that, and at Ctrl-C.

        All members of a team give their part to it, so they go by what member 0 wished when the step was made.
        """
        job, now = self.run.job, self.clock.monotonic() if now is None else now
        if self.interrupts.asked if job.team is None else self.wished == STOP:
            self.save(INTERRUPTED)
            raise KeyboardInterrupt
        if now - self.saved >= job.recipe.checkpoint_seconds if job.team is None else self.wished == SAVE:
            self.save("time")
        elif self.every is not None and self.run.progress.step % self.every == 0 and self.astray.kept != self.run.progress.step:
            self.save("steps")

    def save(self, why: str, *, proved: bool = False) -> None:
        run, at = self.run, self.run.progress
        self.settle(hurry=why == INTERRUPTED)
        began = self.clock.monotonic()
        if not proved:
            self.prove()
        members = run.gather()
        size: int | None = None
        if run.job.team is None or not run.job.team.rank:
            self.count_seconds()
            self.history.tell("checkpoint", step=at.step, epoch=at.epoch, why=why)
            tensors, state = run.capture(self.history.flush(), members)
            size = self.write(tensors, state)
        else:
            run.give()
        self.astray.kept, self.saved, self.wished = at.step, self.clock.monotonic(), NOTHING
        seconds = self.saved - began
        if why != END:
            at.checkpoints, at.checkpoint_seconds = at.checkpoints + 1, at.checkpoint_seconds + seconds
        if size is not None:
            self.history.say(Saved(step=at.step, why=why, seconds=round(seconds, 6), bytes=size))

    def write(self, tensors: Mapping[str, Tensor | Later], state: Mapping[str, Any]) -> int:
        """As slowly as the recipe says, to try out a slow store."""
        job, began = self.run.job, self.clock.monotonic()
        size = checkpoint.write(job.folder, self.run.progress.step, tensors, state)
        left = job.recipe.checkpoint_write_seconds - (self.clock.monotonic() - began)
        if left > 0:
            time.sleep(left)
        return size

    def count_seconds(self) -> None:
        self.run.progress.seconds = self.before + self.clock.monotonic() - self.began

    def prove(self) -> None:
        """Every checkpoint is one to go on from: finite, and with nothing changed that is frozen."""
        self.astray.check_finite()
        if self.run.job.frozen is not None:
            self.run.job.frozen.check()
