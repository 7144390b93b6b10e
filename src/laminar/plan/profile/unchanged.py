"""Unchanged: a job is measured by running it, and is afterwards what it was: tensors, gradients, modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from laminar.train.job import Job


@contextlib.contextmanager
def unchanged(job: Job, *, parameters: bool = False) -> Iterator[None]:
    """`parameters`: also those will be changed; else buffers only (running statistics)."""
    modules = {id(one): one for top in (job.model, job.fit_route.module) for one in top.modules()}.values()
    tensors = {id(one): one for top in (job.model, job.fit_route.module) for one in top.buffers()}
    params = {id(one): one for top in (job.model, job.fit_route.module) for one in top.parameters()}
    if parameters:
        tensors |= {key: one for key, one in params.items() if one.requires_grad}
    before = [(one, one.detach().clone()) for one in tensors.values()]
    grads = [(one, one.grad, one.requires_grad) for one in params.values()]
    modes = [(one, one.training) for one in modules]
    for one, _, _ in grads:
        one.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
        for parameter, grad, learns in grads:
            parameter.requires_grad_(learns)
            parameter.grad = grad
        for module, training in modes:
            module.training = training
