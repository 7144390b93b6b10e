"""Backward: the gradients of a step, of one batch or of several, scaled where the dtype needs it, and clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor, nn

from laminar.train.astray import Astray
from laminar.train.engine import give_back
from laminar.train.snapshot import Run


@final
@dataclass
class Backward:
    run: Run
    astray: Astray
    _shares: dict[float, Tensor] = field(default_factory=dict)

    def part_of_step(self) -> tuple[float, bool]:
        """The share that the batch under way has of its step, by its samples; and whether it is the last of it."""
        at, job = self.run.progress, self.run.job
        size, several = job.recipe.batch, job.recipe.accumulate
        if several == 1:
            return 1.0, True
        first = at.batch - at.batch % several
        behind = min(first + several, job.batches_per_epoch)
        samples = min(len(job.data.train), behind * size) - first * size
        return min(size, samples - (at.batch - first) * size) / samples, at.batch + 1 == behind

    def add(self, loss: Tensor, share: float) -> None:
        """Gradients of so much of the loss; they are added up until the step is made."""
        if self.run.scale is not None:
            self.run.scale.backward(loss if share == 1 else loss * share)
        elif share == 1:
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            if share not in self._shares:  # a multiplication less in the graph, at every step
                self._shares[share] = torch.tensor(share, dtype=loss.dtype)
            give_back([loss], [self._shares[share]])

    def ready(self) -> bool:
        """Gradients, clipped. False: they overflowed float16, and this step is left out."""
        optimizer, scale, clip = self.run.optimizer, self.run.scale, self.run.job.recipe.clip
        if scale is not None and not scale.unscale(optimizer.gradients()):
            if scale.scale < 1:
                raise self.astray.diverged("the gradients overflow float16 at any scale")
            return False
        if clip is not None and self.run.job.team is None:  # a team clips what it has summed up
            norm = float(nn.utils.clip_grad_norm_(optimizer.params.values(), clip))
            if not math.isfinite(norm):
                raise self.astray.diverged(f"the norm of the gradients is {norm}")
        return True
