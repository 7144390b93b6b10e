"""ISGD: SGD that takes more steps on a batch whose loss is out of control (Wang et al., arXiv 1603.05544).

    limit = mean + deviations * standard deviation, of the losses of the newest epoch's worth of batches
    after the step of a batch whose loss was above the limit, `repeats` times at most, and until its loss is no longer above it:
    w     = w - lr * ((loss(w) - limit) * gradient(w) + caution * (w - w_before) / number of weights)

`w_before` are the weights before the batch's own step: the last term keeps one odd batch from carrying them far away. In the first epoch
there is no limit yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import torch

from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.snapshot import Progress


def control_limit(losses: list[float], deviations: float) -> float:
    """The upper control limit of these losses, as statistical process control has it."""
    mean = math.fsum(losses) / len(losses)
    variance = math.fsum((loss - mean) ** 2 for loss in losses) / len(losses)
    return mean + deviations * math.sqrt(variance)


@final
class Inconsistent:
    """Makes the steps of a run with optimizer = "isgd". What it remembers is in the run's progress, and so in its checkpoints."""

    def __init__(self, recipe: Recipe, progress: Progress, batches_per_epoch: int) -> None:
        settings = recipe.settings()
        self._deviations, self._repeats, self._caution = settings["deviations"], settings["repeats"], settings["caution"]
        self._progress, self._newest = progress, batches_per_epoch

    def step(self, optimizer: Optimizer, lr: float, loss: float, again: Callable[[], float]) -> None:
        """The step of a batch that had this loss. `again` computes its loss at the weights of now, and adds the gradients to theirs."""
        limit = self._hear(loss)
        if loss <= limit:
            optimizer.step(lr)
            return
        self._progress.repeated += 1
        params = list(optimizer.params.values())
        before = [param.detach().clone() for param in params]
        count = sum(param.numel() for param in params)
        optimizer.step(lr)
        for _ in range(self._repeats):
            optimizer.zero_grad()
            loss = again()
            if loss <= limit:
                return
            with torch.no_grad():
                for param, old in zip(params, before, strict=True):
                    if param.grad is not None:
                        param.sub_((param - old).mul_(self._caution / count).add_(param.grad, alpha=loss - limit), alpha=lr)

    def _hear(self, loss: float) -> float:
        """The limit with this loss among the newest; infinite until an epoch is full."""
        losses = self._progress.losses
        losses.append(loss)
        del losses[: -self._newest]
        full = self._progress.epoch > 0 and len(losses) == self._newest
        return control_limit(losses, self._deviations) if full else math.inf
