"""Prepare: what cannot be trained apart is refused before anything is started; the rest becomes a plan."""

from __future__ import annotations

from typing import Final

from laminar.core.errors import LaminarError
from laminar.parallel import buffer_row
from laminar.parallel.apart.cut import cut
from laminar.parallel.apart.plan import Plan
from laminar.train.job import Job
from laminar.train.snapshot import buffers_of, trainable
from laminar.train.strategies import Averaging, Downpour, Quorum

UNITS: Final = 8  # units of an epoch for each worker, so that they end together


def make_plan(job: Job, how: Averaging | Downpour | Quorum) -> Plan:
    """L004 if the job is none for this strategy."""
    _refuse(job, how)
    shapes = {name: tuple(parameter.shape) for name, parameter in trainable(job.model).items()}
    names = cut(shapes, how.shards if isinstance(how, Downpour) else 1)
    batches, unit = job.batches_per_epoch, 1
    if isinstance(how, Downpour):
        unit = max(1, batches // (UNITS * how.workers) // how.n_push) * how.n_push
    return Plan(
        recipe=job.recipe,
        shards=[{name: shapes[name] for name in shard} for shard in names],
        buffers=buffer_row.count(buffers_of(job).values()),
        batches=batches,
        samples=min(len(job.data.train), batches * job.recipe.batch),
        unit=unit,
    )


def _refuse(job: Job, how: Averaging | Downpour | Quorum) -> None:
    batches, samples = job.batches_per_epoch, len(job.data.train)
    if samples < how.workers:
        raise LaminarError("L004", f"there are {samples} samples for {how.workers} workers", hint=f"workers = {samples} or fewer")
    if isinstance(how, Quorum) and job.recipe.batch < how.workers:
        raise LaminarError(
            "L004",
            f"train.batch is {job.recipe.batch}, which {how.workers} workers cannot share",
            hint=f"batch = {how.workers} or more, or workers = {job.recipe.batch}",
        )
    if not isinstance(how, Quorum) and batches < how.workers:
        raise LaminarError(
            "L004",
            f"an epoch has {batches} batch{'es' if batches > 1 else ''} for {how.workers} workers, each of which takes whole ones",
            hint=f"workers = {batches} or fewer, or a batch below {job.recipe.batch}",
        )
    odd = [name for name, parameter in trainable(job.model).items() if str(parameter.dtype) != "torch.float32"]
    if odd:
        raise LaminarError("L004", f"'{odd[0]}' is not float32, as {how.kind} needs", hint="leave strategy out for this layer")
