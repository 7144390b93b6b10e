"""LARS: momentum SGD with a rate of its own for every tensor, for large batches (You, Gitman & Ginsburg, arXiv 1708.03888).

    lam = trust * |w| / (|g| + decay * |w|)          1 if |w| or |g| is 0
    v   = momentum * v + lr * lam * (g + decay * w)
    w   = w - v

Biases and the scales of norms (every tensor of one dimension or none) have lam = 1 and no decay, as usual: their norms say little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Norms = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Of two tensors that belong to the first, a parameter, of which a worker may have a part only."""


def norms_alone(_: Tensor, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return torch.linalg.vector_norm(one), torch.linalg.vector_norm(other)


@torch.no_grad()
def lars(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    momenta: Sequence[Tensor],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    trust: float | None,
    norms: Norms = norms_alone,
) -> None:
    """One step, in place. `trust` None: lam = 1 for all, and this is momentum SGD."""
    for param, grad, velocity in zip(params, grads, momenta, strict=True):
        velocity.mul_(momentum)
        if not adapts(param):
            velocity.add_(grad, alpha=lr)
        else:
            change = grad.add(param, alpha=weight_decay)
            if trust is not None:
                change.mul_(_rate(*norms(param, param, grad), weight_decay, trust))
            velocity.add_(change, alpha=lr)
        param.sub_(velocity)


def adapts(param: Tensor) -> bool:
    """Neither a bias nor the scale of a norm."""
    return param.ndim > 1


def _rate(weight: Tensor, slope: Tensor, weight_decay: float, trust: float) -> Tensor:
    rate = trust * weight / (slope + weight_decay * weight)
    return torch.where((weight > 0) & (slope > 0), rate, torch.ones_like(rate))
