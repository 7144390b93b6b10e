"""Local clipping and weight decay: what is done to a gradient before Deep Gradient Compression takes it in (dgc.py has the equations).

The limit is for the gradient of the whole model. Where a model is cut into shards, each with a compressor of its own, it is done before,
over all of them: what is learnt must not depend on how many servers there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from torch import Tensor

from laminar.parallel.compress import checks
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
