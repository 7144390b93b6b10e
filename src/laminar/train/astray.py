"""Astray: what is said of a run that cannot go on, in its history and to the user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch

from laminar.core.errors import LaminarError
from laminar.model.author_errors import raised_at
from laminar.train.dense import sparse_gradient
from laminar.train.history import History, Untold
from laminar.train.one_row import Rows, one_row
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.schedules import LearningRate
from laminar.train.snapshot import Run
from laminar.train.team import blamed


@final
@dataclass
class Astray:
    run: Run
    rate: LearningRate
    history: History | Untold
    kept: int | None = None  # step of the newest checkpoint

    def diverged(self, what: str, step: int | None = None) -> LaminarError:
        """The error of a run that went astray at `step` (default: the one under way). The newest checkpoint stays as it is."""
        step = self.run.progress.step if step is None else step
        job, recipe = self.run.job, self.run.job.recipe
        lr, epoch = self.rate(max(0, step)), step // job.steps_per_epoch
        self.history.tell("failed", step=step, epoch=epoch, lr=lr, why=what)
        good = f"the checkpoint of step {self.kept} is kept" if self.kept is not None else "there is no checkpoint before it"
        clip = "" if recipe.clip is not None else ", or set clip = 1.0"
        scaled = "" if recipe.base_batch is None else f", scaled from {recipe.base_batch} to {recipe.step_batch} samples"
        return LaminarError(
            "L601",
            f"{what} at step {step} of epoch {epoch} (counted from 0), where the learning rate was {lr:g}; {good}",
            hint=f"lower lr in train (it is {recipe.rate:g}{scaled}){clip}",
        )

    def failed(self, error: Exception, *, own: int | None = None, whole: int = 0) -> LaminarError:
        """What the model's own code raised, with the place in it. `own`: rows that this process had of a batch of `whole`."""
        at, job = self.run.progress, self.run.job
        when = f"at step {at.step} of epoch {at.epoch} (counted from 0)"
        if name := sparse_gradient(self.run.optimizer.params):
            what = f"the gradient of '{name}' is sparse {when}, and its first was dense; it must be dense always, or sparse at first"
            self.history.tell("failed", step=at.step, epoch=at.epoch, lr=self.rate(at.step), why=what)
            return LaminarError("L606", what, hint="sparse=False in nn.Embedding, nn.EmbeddingBag or what else looks rows of it up")
        rows, workers = None, 1
        if own is not None:
            at_once, workers = (1, 1) if job.team is None else (max(1, len(job.team.taking)), job.team.part[1])
            rows = Rows(own // at_once, whole, len(job.data.train))  # those of several members go through the model one after the other
        what, told = model_failed(error, when, job.recipe, rows, workers)
        self.history.tell("failed", step=at.step, epoch=at.epoch, lr=self.rate(at.step), why=what)
        return told

    def finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise self.diverged(f"the loss is {loss}{self._blamed()}")
        return loss

    def check_finite(self) -> None:
        """Parameters only: a buffer may well hold an infinity, as masks do."""
        team = self.run.job.team
        if team is not None and not team.taking:
            return  # others, who look for themselves, have not made all the steps that this member has rested for
        for name, parameter in self.run.optimizer.params.items():
            if not bool(torch.isfinite(parameter).all()):
                raise self.diverged(f"'{name}' is no longer finite{self._blamed()}", self.run.progress.step - 1)

    def _blamed(self) -> str:
        """In a team all suffer from what one has done, and the first to tell need not be the one."""
        optimizer = self.run.optimizer
        return "" if isinstance(optimizer, Optimizer) else blamed(optimizer.astray())


def model_failed(error: Exception, when: str, recipe: Recipe, rows: Rows | None = None, workers: int = 1) -> tuple[str, LaminarError]:
    """What the model's own code raised, and the error of it with the place in that code. `rows`: that it was given in training, of a batch
    that so many workers share."""
    what, place = f"{type(error).__name__}: {str(error).strip() or 'no message'}", raised_at(error)
    message = f"the model failed {when}{place and ', ' + place}: {what}"
    hint = "correct the model's forward(); --debug shows the whole traceback"
    if rows is not None and (found := one_row(what, rows, recipe, workers)) is not None:
        why, hint = found
        what, message = f"{what}; {why}", f"{message}; {why}"
    return what, LaminarError("L606", message, hint=hint)
