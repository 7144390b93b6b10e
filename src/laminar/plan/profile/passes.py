"""Passes: a model there and back on real samples, timed as a whole: what the sum of its operators is held against.

    module    the model as one process, and workers who have all of it, run it
    program   operator by operator, as workers of a mesh, a pipeline or branches do
    a worker of a mesh alone, its exchanges made up (dry_line.py)

The job is afterwards what it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from laminar.parallel.split.dims import At, part_of
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.place import Placed
from laminar.parallel.split.prepare import some_samples
from laminar.parallel.split.program import Program
from laminar.parallel.split.weight_grads import WeightGradients
from laminar.parallel.split.whole import Parts
from laminar.plan.profile.one_operator import dry_lines
from laminar.plan.profile.timing import Effort, Timing
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.job import Job
from laminar.train.losses import LossOf, loss_name, make_loss

There = Callable[[], Tensor]  # gives the loss
MOST = 200  # samples of a pass


def loss_of_job(job: Job) -> LossOf:
    return make_loss(loss_name(job.recipe, job.data.task), label_smoothing=job.recipe.label_smoothing)


def targets_of(job: Job, rows: int) -> Tensor:
    y = job.data.train.y
    found = torch.from_numpy(y[torch.arange(rows).numpy() % len(y)])
    return found.to(dtype.of_tensors(job.recipe.dtype)) if found.is_floating_point() else found


def module_pass(job: Job, rows: int, effort: Effort) -> list[list[float]]:
    """Timings of both ways. As the loop does it: loss.item() on the way there."""
    inputs, targets, loss_of, module = some_samples(job, rows), targets_of(job, rows), loss_of_job(job), job.fit_route.module

    def there() -> Tensor:
        with dtype.autocast(job.recipe.dtype):
            return loss_of(module(*inputs), targets)

    with unchanged(job):
        in_training(job)
        return _timed(there, lambda: _forget(list(job.model.parameters())), effort)


def in_training(job: Job) -> None:
    job.model.train()
    job.fit_route.module.train()
    if job.frozen is not None:
        job.frozen.keep()


def program_pass(
    job: Job, placed: Placed, rows: int, effort: Effort, *, at: At, tensors: dict[str, Tensor], staged: bool
) -> list[list[float]]:
    """Of one worker of a mesh; of the whole model where nothing is split. `rows`: of all workers together. `staged`: as a worker of a
    pipeline or of branches does it, whose gradients of weights go their own way."""
    here = Here(placed.mesh, at, dry_lines(placed.mesh, at), weights=WeightGradients(apart=False) if staged else None)
    parts = Parts(placed.layouts, here)
    own = {
        name: _own(parts.own(name, tensor.detach()), tensor) for name, tensor in tensors.items() if name in placed.traced.tensors.values()
    }
    axis = _batch_axis(placed)
    mine = part_of(rows, at[axis], placed.mesh[axis]) if axis is not None else range(rows)
    inputs = [one[mine.start : mine.stop] for one in some_samples(job, rows)]
    targets, loss_of = targets_of(job, rows)[mine.start : mine.stop], loss_of_job(job)
    program = Program(placed, here)
    given = dict(zip(program.inputs, inputs, strict=True))

    def there() -> Tensor:
        (found,) = program.run(given, own, rows).values()
        return loss_of(found, targets)

    return _timed(there, lambda: _forget(list(own.values())), effort)


def _batch_axis(placed: Placed) -> str | None:
    return next((atom.axis for dim in placed.output for atom in dim if atom.of_batch and atom.axis is not None), None)


def _own(part: Tensor, tensor: Tensor) -> Tensor:
    """Buffers are written into, parameters are not."""
    learns = isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad
    return part.detach().requires_grad_() if learns else part.detach().clone()


def _forget(tensors: list[Any]) -> None:
    for tensor in tensors:
        tensor.grad = None


def _timed(there: There, after: Callable[[], None], effort: Effort) -> list[list[float]]:
    clock = time.perf_counter
    forward, backward = list[float](), list[float]()
    began, warm, until = clock(), False, 0.0
    for turn in range(2 + MOST):
        begin = clock()
        loss = there()
        loss.item()
        half = clock()
        loss.backward()  # type: ignore[no-untyped-call]
        end = clock()
        after()
        del loss
        if not warm and end - began < effort.longest_pass:  # the first ones find nothing in caches, and nothing allocated
            warm, until = turn > 0 or end - began > effort.longest_pass / 2, clock() + effort.steps
            continue
        forward.append(half - begin)
        backward.append(end - half)
        late = end - began > effort.longest_pass
        if (len(forward) >= effort.rounds and end > until) or late:
            break
    return [Timing.of(forward).to_json(), Timing.of(backward).to_json()]
