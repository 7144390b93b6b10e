"""The gradient noise scale: the batch beyond which more samples in a step are of less and less use.

"Simple" noise scale of McCandlish et al., arXiv 1812.06162, appendix A.1: from the norms of gradients g of batches of b samples, and of
the gradient G of all B of them together,

    |true gradient|^2 = (B |G|^2 - b |g|^2) / (B - b)        trace of the covariance = (|g|^2 - |G|^2) / (1/b - 1/B)

and the noise scale is the second by the first. It grows while a model learns: this is what it is at the weights that training starts with.
"""

from __future__ import annotations

import time
from typing import Final

import torch
from torch import Tensor

from laminar.data.batches import Batches
from laminar.plan.profile.passes import in_training, loss_of_job
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.job import Job
from laminar.train.snapshot import trainable

BATCHES: Final = 16
MOST: Final = 64  # samples of a batch
SECONDS: Final = 3.0  # after which a few batches have to do
FEWEST: Final = 4


def noise_scale(job: Job, batches: int = BATCHES) -> float | None:
    """In samples. None: it cannot be told from so few."""
    samples = len(job.data.train)
    size = min(job.recipe.batch, MOST, samples // batches)
    if size < 2:  # norms need two
        return None
    with unchanged(job):
        in_training(job)
        squares, total, count = _gradients(job, size, batches)
    small, large = squares / count, float(sum((one / count).double().square().sum() for one in total))
    every = size * count
    true = (every * large - size * small) / (every - size)
    spread = (small - large) / (1 / size - 1 / every)
    found = spread / true if true > 0 else 0.0
    return found if spread > 0 and 0 < found < float("inf") else None


def _gradients(job: Job, size: int, batches: int) -> tuple[float, list[Tensor], int]:
    """The sum of the squared norms of gradients, the sum of gradients, and how many."""
    params, loss_of, wanted = list(trainable(job.model).values()), loss_of_job(job), dtype.of_tensors(job.recipe.dtype)
    total = [torch.zeros_like(one) for one in params]
    squares, count, until = 0.0, 0, time.perf_counter() + SECONDS
    route = job.fit_route
    data, rows = job.data.train, job.data.train.x[:1].nbytes
    gathered = Batches(route.inputs, data.y, batch=size, seed=job.recipe.seed, augment=job.augment, row_bytes=rows, background=False)
    with gathered:
        for block in gathered.some(0, 0, min(batches, gathered.count)):
            tensors = [torch.from_numpy(array) for array in (*block.x, block.y)]
            *x, y = [one.to(wanted) if one.is_floating_point() else one for one in tensors]
            for part in block.slices:
                if part.stop - part.start < size:
                    continue
                with dtype.autocast(job.recipe.dtype):
                    loss = loss_of(route.module(*(one[part] for one in x)), y[part])
                grads = torch.autograd.grad(loss, params, allow_unused=True)
                for own, grad in zip(total, grads, strict=True):
                    if grad is not None:
                        own += grad
                        squares += float(grad.double().square().sum())
                count += 1
                if count >= FEWEST and time.perf_counter() > until:
                    return squares, total, count
    return squares, total, count
