"""Describe: a job as nodes and server get it. A graph of operators, numbers and settings; nothing of it is code. Kernels are named by their
digest: nodes have them, or get no task."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.seeds import derive
from laminar.data.dataset import as_float
from laminar.data.spec import DataSpec
from laminar.grid.node.sources import check_source
from laminar.grid.node.trainer import batches_of
from laminar.grid.settings import Settings
from laminar.grid.trust.admission import LARGEST_BUFFER
from laminar.grid.wire.messages import About
from laminar.model.graph import export_forms, kernels_of
from laminar.model.weights import state
from laminar.parallel import buffer_row
from laminar.train.job import Job
from laminar.train.on_grid import Grid
from laminar.train.snapshot import buffers_of, trainable


@dataclass(frozen=True)
class Described:
    settings: Settings
    about: bytes
    files: dict[str, bytes]  # by sha256; the description and the first version are in it
    first: str  # sha256 of the first version

    @property
    def about_sha256(self) -> str:
        return digest.of_bytes(self.about)


def describe(job: Job, name: str, spec: DataSpec, freeze: list[str]) -> Described:
    """L504 where strangers cannot train it: data of this machine only, a model that cannot be exported, other numbers than float32."""
    check_source(spec)
    recipe = job.recipe
    how = recipe.strategy
    assert isinstance(how, Grid)
    params = trainable(job.model)
    odd = [key for key, tensor in params.items() if tensor.dtype != torch.float32]
    if odd:
        raise LaminarError("L504", f"'{odd[0]}' is not float32, as nodes compute", hint="leave strategy out for this layer")
    example = torch.from_numpy(as_float(job.data.train.x[:2].copy()))
    forms = export_forms(job.model, example, frozen=job.frozen)
    if forms.train is None or forms.eval is None:
        raise LaminarError("L504", f"nodes get a graph and no code, and {forms.note}", hint="train this layer with another strategy")
    kernels = {kernel.sha256: kernel.stem for kernel in kernels_of(forms.train, forms.eval)}
    tensors, aliases = state(job.model)
    buffers = _told(job)
    fixed = {key: tensor.detach().contiguous() for key, tensor in {**tensors, **buffers_of(job)}.items() if key not in params}
    files = {digest.of_bytes(data): data for data in (forms.train, forms.eval, *([save(fixed)] if fixed else []))}
    batches = batches_of(len(job.data.train), recipe.batch)
    settings = Settings(
        recipe=recipe,
        rounds=how.rounds or rounds_for(how, recipe.epochs, batches, local=spec.sample is not None),
        batches=batches,
        epoch_samples=len(job.data.train),
        test_samples=len(job.data.test),
        local=spec.sample is not None,
        parameters={key: tuple(tensor.shape) for key, tensor in params.items()},
        buffers=buffer_row.count(buffers.values()),
        gradients=how.local_steps == 1 and recipe.optimizer == "sgd",
        daemons=how.own_daemons,
        kernels=kernels,
    )
    about = About(
        run=name,
        graphs={"train": digest.of_bytes(forms.train), "eval": digest.of_bytes(forms.eval)},
        parameters=settings.parameters,
        buffers={key: tuple(buffer.shape) for key, buffer in buffers.items()},
        fixed=digest.of_bytes(save(fixed)) if fixed else None,
        aliases=aliases,
        frozen=freeze,
        recipe=msgspec.to_builtins(recipe),
        data=msgspec.to_builtins(spec),
        compress=msgspec.to_builtins(how.compression),
        gradients=settings.gradients,
        classes=len(job.data.classes) if job.data.classes is not None else None,
        sketch=derive(recipe.seed, "grid sketch"),
    )
    described, first = msgspec.json.encode(about), version_of(job)
    files |= {digest.of_bytes(data): data for data in (described, first)}
    return Described(settings, described, files, digest.of_bytes(first))


def rounds_for(how: Grid, epochs: int, batches: int, *, local: bool) -> int:
    """Versions after which as many batches were trained on as in so many epochs of one process. A task ends with its epoch, unless nodes
    have samples of their own."""
    answers = how.workers if how.mode == "rounds" else how.buffer
    tasks = math.ceil(epochs * batches / how.local_steps) if local else epochs * math.ceil(batches / how.local_steps)
    return max(1, math.ceil(tasks / answers))


def _told(job: Job) -> dict[str, Tensor]:
    """Buffers that nodes tell: those whose numbers an answer may hold (trust/admission.py). Others are tables, such as a mask of -inf."""
    return {name: tensor for name, tensor in buffers_of(job).items() if bool((buffer_row.row_of([tensor]).abs() <= LARGEST_BUFFER).all())}


def version_of(job: Job) -> bytes:
    """What the model has now, as a version (wire/model_bytes.py)."""
    parts = [tensor.detach().float().reshape(-1) for tensor in trainable(job.model).values()]
    row = torch.cat(parts) if parts else torch.zeros(0)
    return row.numpy().tobytes() + buffer_row.row_of(list(_told(job).values())).numpy().tobytes()


@torch.no_grad()
def load_version(job: Job, version: bytes) -> None:
    """The other way round."""
    params = list(trainable(job.model).values())
    numbers = sum(tensor.numel() for tensor in params)
    row = torch.from_numpy(np.frombuffer(version, dtype="<f4", count=numbers).copy())
    for tensor, some in zip(params, torch.split(row, [tensor.numel() for tensor in params]), strict=True):
        tensor.copy_(some.view(tensor.shape))
    rest = np.frombuffer(version, dtype="<f8", offset=4 * numbers)
    buffer_row.put_back(list(_told(job).values()), torch.from_numpy(rest.copy()))
