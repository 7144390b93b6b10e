"""Outer steps: what becomes of the parameters when workers that trained apart meet.

    average    w <- mean of the workers. Once at the end: Zinkevich et al., NIPS 2010; every few steps: local SGD (Stich, arXiv 1805.09767)
    nesterov   a step of Nesterov's momentum along start - mean: DiLoCo (Douillard et al., arXiv 2311.08105)

Tensors may have any shape; a flat vector of all parameters is the usual one. All is done in place, in one order, so that the same workers
give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, final

import torch
from torch import Tensor

from laminar.parallel.restore import restore


@torch.no_grad()
def mean_of(workers: Sequence[Tensor], weights: Sequence[float] | None = None, *, out: Tensor | None = None) -> Tensor:
    """Their mean, or a weighted one (weights need not sum to 1: samples will do). `out` may be one of the workers."""
    shares = [1.0] * len(workers) if weights is None else [float(weight) for weight in weights]
    total = sum(shares)
    if not workers or len(shares) != len(workers) or not total > 0 or min(shares) < 0:
        raise ValueError(f"{len(workers)} workers with weights {weights}: as many weights of 0 or more are expected, not all of them 0")
    if len(workers) == 1:
        return workers[0].clone() if out is None else out.copy_(workers[0])
    mean = torch.zeros_like(workers[0])
    for worker, share in zip(workers, shares, strict=True):
        mean.add_(worker, alpha=share / total)
    return mean if out is None else out.copy_(mean)


class Outer(Protocol):
    """`start` is what all workers began with; `step` makes it what they begin with next. A step may use up `mean`."""

    def step(self, start: Tensor, mean: Tensor) -> None: ...
    def state(self) -> dict[str, Tensor]: ...
    def load(self, saved: Mapping[str, Tensor]) -> None: ...


@final
class Average:
    def step(self, start: Tensor, mean: Tensor) -> None:
        start.copy_(mean)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        restore("the average", self.state(), saved)


@final
class Nesterov:
    """d = start - mean; m = momentum * m + d; w = start - lr * (d + momentum * m). The values of OpenDiLoCo by default."""

    def __init__(self, like: Tensor, *, lr: float = 0.7, momentum: float = 0.9) -> None:
        if not lr > 0 or not 0 <= momentum < 1:
            raise ValueError(f"lr is {lr} and momentum {momentum}, but must be above 0, and from 0 to below 1")
        self.lr, self.momentum = lr, momentum
        self._momentum = torch.zeros_like(like, requires_grad=False)

    @torch.no_grad()
    def step(self, start: Tensor, mean: Tensor) -> None:
        distance = torch.sub(start, mean, out=mean)
        self._momentum.mul_(self.momentum).add_(distance)
        start.sub_(distance.add_(self._momentum, alpha=self.momentum), alpha=self.lr)

    def state(self) -> dict[str, Tensor]:
        return {"momentum": self._momentum}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        restore("the outer optimizer", self.state(), saved)
