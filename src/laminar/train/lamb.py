"""LAMB: Adam with a step as long as its tensor deserves, for large batches (You et al., arXiv 1904.00962).

    m, v = Adam's moments, bias corrected
    r    = m / (sqrt(v) + eps) + decay * w
    w    = w - lr * |w| / |r| * r                    the ratio is 1 if |w| or |r| is 0

Biases and the scales of norms (every tensor of one dimension or none) have ratio 1 and no decay, as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from laminar.train.lars import Norms, adapts, norms_alone


@torch.no_grad()
def lamb(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    counts: Sequence[Tensor],
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    ratio: bool = True,
    norms: Norms = norms_alone,
) -> None:
    """One step, in place. Without `ratio` it is 1 for all, and this is AdamW."""
    first, second = betas
    for param, grad, mean, square, count in zip(params, grads, means, squares, counts, strict=True):
        count += 1
        steps = float(count)
        mean.lerp_(grad, 1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        change = square.div(1 - second**steps).sqrt_().add_(eps)
        torch.div(mean, change, out=change).div_(1 - first**steps)
        if adapts(param):
            change.add_(param, alpha=weight_decay)
            if ratio:
                change.mul_(_ratio(*norms(param, param, change)))
        param.sub_(change, alpha=lr)


def _ratio(weight: Tensor, length: Tensor) -> Tensor:
    return torch.where((weight > 0) & (length > 0), weight / length, torch.ones_like(weight))
