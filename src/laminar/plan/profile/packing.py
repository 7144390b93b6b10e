"""Packing: what a compression makes of the gradient of a job, and what that takes; with the parts that sync has for it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import torch
from torch import Tensor

from laminar.parallel.sync.group_team import padded
from laminar.parallel.sync.small_gradients import SmallGradients
from laminar.plan.facts import Packing
from laminar.plan.our_code import our_code
from laminar.plan.profile.meter import Meter
from laminar.plan.profile.timing import Effort, timed
from laminar.train.compression import AnyCompression, NoCompression
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.snapshot import trainable
from laminar.train.strategies import Sync
from laminar.train.strategy_spec import with_settings

USUAL: Final = 1e-3  # size of a number of a gradient, about
TRAINED: Final = 1e6  # epochs behind: a warm-up is over
MEMBERS: Final = 2


def packing(job: Job, how: AnyCompression, meter: Meter) -> Packing:
    trained = trainable(job.model)
    if isinstance(how, NoCompression):
        return Packing(sum(one.nbytes for one in trained.values()))
    recipe = job.recipe
    key: dict[str, Any] = {
        "what": "packing",
        "how": with_settings(how),
        "tensors": [list(one.shape) for one in trained.values()],
        "recipe": [recipe.optimizer, recipe.settings(), recipe.clip],
        "code": our_code("parallel/compress", "parallel/sync/small_gradients.py"),
    }
    size, encode, decode, sums = meter.one(f"packing by {how.kind}", key, lambda: measure(job, how, meter.effort))
    return Packing(size, encode, decode, tuple(sums))


def measure(job: Job, how: AnyCompression, effort: Effort) -> list[Any]:
    """Bytes, seconds of a packet, seconds for each packet of the others, and bytes of each sum."""
    params = trainable(job.model)
    plain = job.recipe if job.recipe.optimizer == "sgd" else Recipe(epochs=1, optimizer="sgd")  # some packets have its momentum in them
    small = SmallGradients(msgspec.structs.replace(plain, strategy=Sync(workers=MEMBERS, compress=how)), params, MEMBERS)
    grads = [torch.randn(one.shape) * USUAL for one in params.values()]
    if small.by_sums:
        sums: list[int] = []
        small.exchange(grads, lambda tensor: sums.append(tensor.nbytes))
        return [sum(sums), timed(lambda: small.exchange(grads, _alone), effort).median, 0.0, sums]
    packet = small.encode(grads, TRAINED)
    encode = timed(lambda: padded(packed := small.encode(grads, TRAINED), packed.nbytes), effort)
    return [packet.nbytes, encode.median, timed(lambda: small.decode([packet]), effort).median, []]


def _alone(_: Tensor) -> None:
    """A sum over nobody else."""
