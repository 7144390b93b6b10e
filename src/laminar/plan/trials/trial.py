"""Trial: a strategy, run for some real steps, to see how long they take. Nothing of it is kept."""

from __future__ import annotations

import dataclasses
import statistics
import time
from dataclasses import dataclass
from typing import Any, Final, final

import msgspec

from laminar.core import atomic
from laminar.parallel.run import run
from laminar.plan.trials.open_layer import passing_run
from laminar.stack.open_job import ROUTE, Description
from laminar.store.store import Store
from laminar.train.job import Job
from laminar.train.recipe import NO_CHECKPOINTS
from laminar.train.strategies import AnyStrategy

STEPS: Final = 20  # at least
SECONDS: Final = 2.0  # at least, after the first steps
LONGEST: Final = 60.0  # seconds in all, however few steps that are
START: Final = 4.0  # seconds until workers have begun, about
EPOCHS: Final = 1000  # it ends by being told so


class Enough(KeyboardInterrupt):
    """What has to be known is known. Training ends as it does after Ctrl-C."""


@dataclass(frozen=True)
class Tried:
    """A strategy in real life."""

    seconds: float  # until a batch is behind the team, as plans have it
    steps: int  # that were looked at
    spread: float  # of what single stretches of it took, as a share


@final
class Watch:
    """Listens to a run until it knows how long its steps take."""

    def __init__(self, steps: int = STEPS, seconds: float = SECONDS, longest: float = LONGEST) -> None:
        self._steps, self._seconds, self._longest = steps, seconds, longest
        self._began = time.monotonic()
        self._marks: list[tuple[int, int, float]] = []  # epoch, step, time
        self._epochs: list[float] = []  # samples per second of whole epochs
        self.ended = False  # it has said that it knows enough

    def __call__(self, event: dict[str, Any]) -> None:
        if self.ended:
            return
        if event["event"] == "step":
            self._marks.append((event["epoch"], event["step"], event["t"]))
            self.ended = self.enough() or time.monotonic() - self._began > self._longest
        elif event["event"] == "epoch":
            self._epochs.append(event["samples_per_second"])
            self.ended = len(self._epochs) > 3 and self._spent() > self._seconds
        if self.ended:
            raise Enough

    def _spent(self) -> float:
        return self._marks[-1][2] - self._marks[0][2] if self._marks else 0.0

    def enough(self) -> bool:
        stretches = self._stretches()
        return sum(steps for steps, _ in stretches) >= self._steps and sum(spent for _, spent in stretches) >= self._seconds

    def _stretches(self) -> list[tuple[int, float]]:
        """Steps and seconds between two marks of one epoch, without the first steps of all: a test after an epoch is no step."""
        found = []
        for (epoch, step, at), (then, later, end) in zip(self._marks[1:], self._marks[2:], strict=False):
            if epoch == then and later > step:
                found.append((later - step, end - at))
        return found

    def tried(self, batch: int, accumulate: int = 1) -> Tried | None:
        """`batch`: samples of one; steps are of `accumulate` batches. None: it was too short to tell."""
        if len(self._epochs) > 2:
            each = [batch / rate for rate in self._epochs[1:]]
            return Tried(statistics.median(each), len(each), _spread(each))
        stretches = self._stretches()
        steps, spent = sum(one[0] for one in stretches), sum(one[1] for one in stretches)
        if not steps:
            return Tried(batch / self._epochs[-1], 1, 0.0) if self._epochs else None
        return Tried(spent / steps / accumulate, steps, _spread([s / n for n, s in stretches]))


def trial_seconds(step: float, workers: int) -> float:
    """That a trial takes, about, where a step takes so long."""
    return (START if workers > 1 else START / 4) + min(LONGEST, max(SECONDS, STEPS * step))


def _spread(each: list[float]) -> float:
    return statistics.pstdev(each) / statistics.fmean(each) if len(each) > 1 else 0.0


def trial(job: Job, description: Description, how: AnyStrategy, *, watch: Watch | None = None) -> Tried | None:
    """A job like `job`, opened anew and trained by this strategy for a while. `job` stays as it is."""
    watch = watch or Watch()
    recipe = msgspec.structs.replace(
        job.recipe, strategy=how, epochs=EPOCHS, target=None, patience=None, schedule="constant", warmup=0, **NO_CHECKPOINTS
    )
    store = Store.open(description.store, create=False)
    with passing_run(store) as name:
        other = dataclasses.replace(description.with_recipe(recipe), run=name)
        atomic.write_text(store.run_folder(name) / ROUTE, "always" if job.fit is not None else "never")
        try:
            mine, _ = other.open()
            mine.tensorboard = False
            run(mine, other, watch)
        except KeyboardInterrupt:
            if not watch.ended:
                raise
    return watch.tried(min(recipe.batch, len(job.data.train)), recipe.accumulate)
