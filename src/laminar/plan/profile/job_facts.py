"""Job facts: what a step of a job consists of beside its model: gathering samples, the optimizer, and the loop itself."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, Final

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from laminar.data.batches import Batches
from laminar.model.weights import raw_bytes
from laminar.parallel.split.prepare import some_samples
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.row_probe import row_facts
from laminar.plan.facts import Curve, JobFacts
from laminar.plan.our_code import our_code
from laminar.plan.profile.loop_trial import loop_gap
from laminar.plan.profile.meter import Meter
from laminar.plan.profile.model_code import code_of, plain_name
from laminar.plan.profile.noise import BATCHES, MOST, noise_scale
from laminar.plan.profile.passes import in_training, loss_of_job, targets_of
from laminar.plan.profile.timing import Effort, timed
from laminar.plan.profile.unchanged import unchanged
from laminar.train import dtype
from laminar.train.evaluate import sums
from laminar.train.job import Job
from laminar.train.losses import loss_name
from laminar.train.optimizers import Optimizer, slots_of
from laminar.train.recipe import Recipe
from laminar.train.snapshot import trainable

SIZES: Final = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23)  # bytes
BIGGEST: Final = 5  # tensors that are named
TESTED: Final = 1024  # samples by which it is measured how long testing takes


def job_facts(job: Job, meter: Meter) -> JobFacts:
    recipe, trained = job.recipe, trainable(job.model)
    tensors: dict[str, Tensor] = dict([*job.model.named_parameters(), *job.model.named_buffers()])
    params = sum(one.numel() for one in trained.values())
    about, effort = signature(job), meter.effort
    curve = step_curve(recipe, meter)
    width = next(iter(trained.values())).element_size()
    loop = {"what": "loop", "job": about, "batch": recipe.batch, "code": our_code("train", "data")}
    gap = meter.one("the loop", loop, lambda: loop_gap(job, effort))
    gather = meter.one("gathering samples", {"what": "gather", **_data(job), "code": our_code("data")}, lambda: gather_time(job, effort))
    kept = meter.one("memory", {"what": "kept", "job": about}, lambda: kept_per_row(job))
    test = meter.one("testing", {"what": "test", "job": about, "code": our_code("train/evaluate.py")}, lambda: test_time(job, effort))
    rows = meter.one(
        "what rows have to do with each other",
        {"what": "rows", "job": about, "batch": recipe.batch, "code": our_code("parallel/sync")},
        lambda: row_facts(job).to_json(),
    )
    return JobFacts(
        layer=job.name,
        batch=recipe.batch,
        samples=len(job.data.train),
        epochs=recipe.epochs,
        optimizer=recipe.optimizer,
        slots=len([slot for slot in slots_of(recipe) if slot != "count"]),
        parameters=params,
        row_bytes=sum(x[:1].nbytes for x in job.fit_route.inputs),
        untrained=sum(one.nbytes for name, one in tensors.items() if name not in trained),
        kept_per_row=kept,
        gather=gather,
        loop=max(0.0, gap - curve(params * width)),
        step=curve,
        biggest=tuple(sorted(((name, one.nbytes) for name, one in tensors.items()), key=lambda one: -one[1])[:BIGGEST]),
        tensors=tuple(one.nbytes for name, one in tensors.items() if name in trained),
        test_samples=len(job.data.test.y),
        test=test,
        rows=RowFacts.from_json(rows),
    )


def gradient_noise(job: Job, meter: Meter) -> float | None:
    """In samples; None: it cannot be told."""
    key = {"what": "noise", "job": signature(job), "weights": _weights(job)}
    found: list[float | None] = meter.one("gradient noise", key, lambda: [noise_scale(job)])
    return found[0]


def signature(job: Job) -> str:
    """Of all that decides how long the model takes, as far as that can be seen without running it: its modules, the files their code is
    in, its tensors but for the numbers in them, what goes in, and the loss."""
    state = hashlib.sha256()
    for top in (job.model, job.fit_route.module):
        state.update(str(top).encode())
        kinds = sorted({type(one) for one in top.modules()}, key=lambda one: (plain_name(one.__module__), one.__qualname__))
        for kind in kinds:
            state.update(f"{plain_name(kind.__module__)}.{kind.__qualname__}".encode())
        state.update(code_of(kinds).encode())
        for name, tensor in [*top.named_parameters(), *top.named_buffers()]:
            state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}".encode())
    inputs = [[list(one.shape[1:]), str(one.dtype)] for one in job.fit_route.inputs]
    recipe = [job.recipe.dtype, loss_name(job.recipe, job.data.task), job.recipe.label_smoothing]
    frozen = sorted(job.frozen.paths) if job.frozen is not None else []
    state.update(json.dumps([inputs, recipe, frozen, list(job.data.train.y.shape[1:])]).encode())
    return state.hexdigest()


def _data(job: Job) -> dict[str, Any]:
    inputs = [[list(one.shape[1:]), str(one.dtype), type(one).__name__] for one in job.fit_route.inputs]
    return {"inputs": inputs, "samples": len(job.data.train), "augment": msgspec.to_builtins(job.augment), "batch": job.recipe.batch}


def _weights(job: Job) -> str:
    """Noise depends on the very numbers: of the model, and of the samples that are looked at."""
    state = hashlib.sha256()
    for _, tensor in sorted(trainable(job.model).items()):
        state.update(raw_bytes(tensor.detach()))
    some = slice(0, BATCHES * MOST)
    for array in (job.data.train.x[some], job.data.train.y[some]):
        state.update(np.ascontiguousarray(array).tobytes())
    state.update(f"{job.recipe.seed} {job.recipe.batch} {len(job.data.train)}".encode())
    return state.hexdigest()


# What is measured


def step_curve(recipe: Recipe, meter: Meter) -> Curve:
    """The optimizer's step on one flat tensor, clipping included."""
    effort = meter.effort
    key = {"what": "optimizer", "optimizer": recipe.optimizer, "settings": recipe.settings(), "clip": recipe.clip, "sizes": SIZES}
    key["code"] = our_code("train")

    def measure() -> list[list[float]]:
        found = []
        for size in SIZES:
            own = nn.Parameter(torch.randn(size // 4))
            own.grad = torch.randn(size // 4)
            made = Optimizer(recipe, {"flat": own})

            def once(made: Optimizer = made, own: nn.Parameter = own) -> None:
                if recipe.clip is not None:
                    nn.utils.clip_grad_norm_([own], recipe.clip)
                made.step(1e-6)

            found.append([size, timed(once, effort).median])
        return found

    return Curve.measured(dict(meter.one("the optimizer", key, measure)))


def gather_time(job: Job, effort: Effort) -> float:
    """Seconds for a sample, as a member of a team gathers: when it needs them, without a thread for it."""
    route = job.fit_route
    clock, spent, samples, turn = time.perf_counter, 0.0, 0, 0
    with Batches(
        route.inputs,
        job.data.train.y,
        batch=job.recipe.batch,
        seed=job.recipe.seed,
        augment=job.augment,
        row_bytes=job.data.train.x[:1].nbytes,
        background=False,
    ) as batches:
        while turn < 2 or spent < effort.steps:
            begin, before = clock(), samples
            for block in batches.epoch(turn):
                samples += len(block.y)
                if clock() - begin > effort.steps:
                    break
            if turn:  # the first epoch finds nothing in memory
                spent += clock() - begin
            else:
                samples = before
            turn += 1
    return spent / max(1, samples)


def test_time(job: Job, effort: Effort) -> float:
    """Seconds for a sample, as an epoch is tested."""
    route, data, rows = job.test_route, job.data, slice(0, min(len(job.data.test.y), TESTED))
    objective, dtype_ = loss_name(job.recipe, data.task), job.recipe.dtype

    def once() -> None:
        sums(route.module, route.inputs, data.test.y, rows, task=data.task, dtype=dtype_, loss=objective)

    with unchanged(job):
        return timed(once, effort).median / max(1, rows.stop)


def kept_per_row(job: Job) -> int:
    """Bytes that the forward pass of a sample leaves in memory for the backward pass."""
    sizes: list[int] = []
    own = {one.untyped_storage().data_ptr() for one in [*job.model.parameters(), *job.model.buffers()]}
    with unchanged(job):
        in_training(job)
        for rows in (2, 6):
            inputs, targets = some_samples(job, rows), targets_of(job, rows)
            there: dict[int, Tensor] = {}

            def pack(tensor: Tensor, there: dict[int, Tensor] = there) -> Tensor:
                there[tensor.untyped_storage().data_ptr()] = tensor.detach()  # kept, so that no memory is used twice
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one), dtype.autocast(job.recipe.dtype):
                loss = loss_of_job(job)(job.fit_route.module(*inputs), targets)
            sizes.append(sum(one.untyped_storage().nbytes() for place, one in there.items() if place not in own))
            del loss
    return max(0, round((sizes[1] - sizes[0]) / 4))
