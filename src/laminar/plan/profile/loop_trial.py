"""A trial of the loop: what a step takes beside passes, by really training for some steps. The job is afterwards what it was."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch import Tensor, nn

from laminar.data.dataset import Dataset, Split
from laminar.parallel.split.prepare import some_samples
from laminar.plan.profile.passes import in_training
from laminar.plan.profile.timing import Effort
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.job import Job, Route
from laminar.train.loop import train
from laminar.train.recipe import NO_CHECKPOINTS
from laminar.train.snapshot import trainable

STEPS: Final = 24
SECONDS: Final = 3.0  # of all of them, about: what a loop does beside passes does not depend on the rows of a batch
PROBE: Final = 8  # rows of a pass by which it is seen how many there is time for


def loop_gap(job: Job, effort: Effort) -> float:
    """Seconds from the end of a backward pass until the next forward pass begins: the optimizer, and all that a loop does beside. By
    training for some steps, in a folder of its own."""
    steps = max(4, min(STEPS, int(STEPS * effort.steps / 0.25)))
    batch = min(job.recipe.batch, max(2, len(job.data.train) // 8))  # of a few samples, too, there are to be some steps
    batch, steps = in_time(batch, steps, _row_seconds(job))
    rows = min(len(job.data.train), steps * batch)
    marks: list[tuple[str, float]] = []
    clock = time.perf_counter

    def began(module: nn.Module, _: Any) -> None:
        marks.append(("forward" if module.training else "test", clock()))

    def ended(_: Tensor) -> None:
        marks.append(("backward", clock()))

    with unchanged(job, parameters=True), tempfile.TemporaryDirectory(prefix="laminar-plan-") as folder:
        handles: list[Any] = [job.fit_route.module.register_forward_pre_hook(began)]
        handles += [one.register_post_accumulate_grad_hook(ended) for one in trainable(job.model).values()]  # type: ignore[no-untyped-call]
        try:
            train(_short(job, rows, batch, Path(folder)))
        finally:
            for handle in handles:
                handle.remove()
    pairs = itertools.pairwise(marks)
    gaps = [then - before for (what, before), (next_, then) in pairs if (what, next_) == ("backward", "forward")]
    return statistics.median(gaps) if gaps else 0.0


def in_time(batch: int, steps: int, row: float) -> tuple[int, int]:
    """Rows of a batch and steps of an epoch for which there is time, where there and back takes a row so long."""
    batch = max(2, min(batch, int(SECONDS / (2 * steps * row))))
    return batch, max(4, min(steps, int(SECONDS / (2 * batch * row))))


def _row_seconds(job: Job) -> float:
    """Of a pass there and back, about: back takes twice as long as there."""
    inputs = some_samples(job, PROBE)
    with unchanged(job), torch.no_grad(), dtype.autocast(job.recipe.dtype):
        in_training(job)
        job.fit_route.module(*inputs)
        begin = time.perf_counter()
        job.fit_route.module(*inputs)
        return 3 * (time.perf_counter() - begin) / PROBE


def _short(job: Job, rows: int, batch: int, folder: Path) -> Job:
    """The same job on a part of its samples, for two epochs."""
    calm = {"batch": batch, "accumulate": 1, "lr": 1e-9, "warmup": 0, "schedule": "constant"}
    recipe = msgspec.structs.replace(job.recipe, epochs=2, threads=1, strategy=None, target=None, patience=None, **calm, **NO_CHECKPOINTS)
    tests = min(len(job.data.test), 8)
    data = Dataset(
        Split(job.data.train.x[:rows], job.data.train.y[:rows]), Split(job.data.test.x[:tests], job.data.test.y[:tests]), job.data.classes
    )
    fit = Route(job.fit_route.module, [one[:rows] for one in job.fit_route.inputs])
    test = Route(job.test_route.module, [one[:tests] for one in job.test_route.inputs])
    return replace(job, data=data, recipe=recipe, folder=folder, fit=fit, test=test, tensorboard=False, team=None, announce=[])
