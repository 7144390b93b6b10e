"""By modules: what is known of a model that cannot be traced. Its innermost modules are timed one by one on what really goes into them.

What the model computes between modules is one piece at the end, as long as the rest of a whole pass; the order is that in which modules
are called. So memory and time of the whole are right, and nothing can be split or cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from laminar.parallel.split.prepare import some_samples
from laminar.plan.facts import ModelCost, OperatorCost, Pass
from laminar.plan.profile.one_operator import engine_time
from laminar.plan.profile.passes import in_training
from laminar.plan.profile.timing import Effort, timed
from laminar.plan.profile.unchanged import unchanged
from laminar.train.job import Job
from laminar.train.snapshot import trainable

REST = "between modules"
Times = list[list[Any]]  # path, class, seconds there, back, bytes that it gives


def module_times(job: Job, rows: int, effort: Effort) -> Times:
    called: list[tuple[str, nn.Module, tuple[Any, ...]]] = []

    def hook(path: str) -> Any:
        def enter(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            called.append((path, module, tuple(one.detach() if isinstance(one, Tensor) else one for one in inputs)))

        return enter

    with unchanged(job):
        in_training(job)
        top = job.fit_route.module
        leaves = [(path, one) for path, one in top.named_modules() if not any(True for _ in one.children())]
        handles = [one.register_forward_pre_hook(hook(path)) for path, one in leaves]
        try:
            with torch.no_grad():
                top(*some_samples(job, rows))
        finally:
            for handle in handles:
                handle.remove()
        engine = engine_time(effort)
        return [[path, type(one).__name__, *_one(one, inputs, engine, effort)] for path, one, inputs in called]


def _one(module: nn.Module, inputs: tuple[Any, ...], engine: float, effort: Effort) -> tuple[float, float, int]:
    own = [one.clone().requires_grad_() if isinstance(one, Tensor) and one.is_floating_point() else one for one in inputs]

    once = _runner(module, own)
    if once is None:
        return 0.0, 0.0, 0
    found = once()
    several = [one for one in (found if isinstance(found, list | tuple) else [found]) if isinstance(one, Tensor)]
    forward = timed(once, effort).low
    roots = [one for one in several if one.requires_grad]
    learn = [one for one in [*own, *module.parameters()] if isinstance(one, Tensor) and one.requires_grad]
    size = sum(one.nbytes for one in several)
    if not roots or not learn:
        return forward, 0.0, size
    grads = [torch.ones_like(one) for one in roots]

    def back() -> None:
        torch.autograd.grad(roots, learn, grads, retain_graph=True, allow_unused=True)

    return forward, timed(back, effort).less(engine).low, size


def _runner(module: nn.Module, own: list[Any]) -> Callable[[], Any] | None:
    """None: it needs more than what goes in by place; its time is part of the rest."""

    def plainly() -> Any:
        return module(*own)

    def on_copies() -> Any:  # where it writes into its input, which may not be one that learns
        return module(*(one.clone() if isinstance(one, Tensor) else one for one in own))

    for way in (plainly, on_copies):
        try:
            way()
        except Exception:  # whatever the author's code may raise
            continue
        return way
    return None


def cost_by_modules(job: Job, rows: int, times: Times, whole: Pass) -> ModelCost:
    """Together as long as a whole pass."""
    there, back = sum(one[2] for one in times), sum(one[3] for one in times)
    scale = [min(1.0, whole.forward / there) if there else 1.0, min(1.0, whole.backward / back) if back else 1.0]
    found = [
        OperatorCost(f"{kind} {i}", path, (i - 1,) if i else (), forward * scale[0], backward * scale[1], 0.0, kept=size, given=size)
        for i, (path, kind, forward, backward, size) in enumerate(times)
    ]
    forward, backward = max(0.0, whole.forward - there * scale[0]), max(0.0, whole.backward - back * scale[1])
    found.append(OperatorCost(REST, "", (len(found) - 1,) if found else (), forward, backward, 0.0))
    names = trainable(job.model)
    tensors = dict([*job.model.named_parameters(), *job.model.named_buffers()])
    trained = sum(one.nbytes for name, one in tensors.items() if name in names)
    return ModelCost(rows, tuple(found), (), trained, sum(one.nbytes for one in tensors.values()) - trained)
