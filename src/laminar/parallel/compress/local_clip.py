"""Local clipping and weight decay: what is done to a gradient before Deep Gradient Compression takes it in (dgc.py has the equations).

The limit is for the gradient of the whole model. Where a model is cut into shards, each with a compressor of its own, it is done before,
over all of them: what is learnt must not depend on how many servers there are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import final

import torch
from torch import Tensor

from laminar.parallel.compress import checks
from laminar.parallel.compress.layout import Layout
from laminar.train.compression import Dgc


@final
class LocalClip:
    def __init__(self, spec: Dgc, *, workers: int, clip: float | None, weight_decay: float) -> None:
        clip = clip if spec.clip is None else spec.clip
        self.limit = math.inf if clip is None else clip * math.sqrt(workers)
        self.decay = weight_decay

    def __call__(self, grads: Sequence[Tensor], weights: Sequence[Tensor] | None) -> None:
        """In place. Gradients are flat and finite; weights are those of each, with zeros where nothing is to decay."""
        if self.decay:
            if weights is None:
                raise ValueError(f"weight_decay is {self.decay}, so encode needs weights")
            for grad, some in zip(grads, weights, strict=True):
                grad.add_(some.detach(), alpha=self.decay)
        if math.isfinite(self.limit):
            norm = math.hypot(*(checks.norm_of(grad) for grad in grads))
            if norm > self.limit:
                for grad in grads:
                    grad.mul_(self.limit / norm)


@final
class Decaying:
    """Which tensors decay: those that have had a gradient at this worker. One that never had is left alone, as one process leaves it.

    In a step without one the others decay all the same: their momentum moves them on, too, and a worker that has no rows of a batch, or
    none that go through a tensor, cannot know that others have some. If it left out its share, the mean of all would decay too little.
    A worker that joins, or is started in the place of another, has seen none of them at first.
    """

    def __init__(self, layout: Layout) -> None:
        self._parts = layout.parts
        self._never = set(range(len(layout.parts)))

    def had(self) -> Tensor:
        """Of each tensor whether it has had a gradient, to be kept over an interruption."""
        return torch.tensor([i not in self._never for i in range(len(self._parts))], dtype=torch.uint8)

    def load(self, had: Tensor) -> None:
        self._never = {i for i, one in enumerate(had.tolist()) if not one}

    def weights(self, row: Tensor, idle: Collection[int]) -> Tensor:
        """The row of parameters, with zeros where nothing is to decay. `idle`: tensors without a gradient now, by number."""
        if self._never:
            self._never &= set(idle)
        if not self._never:
            return row
        row = row.clone()
        for i in self._never:
            self._parts[i].of(row).zero_()
        return row
