"""Evaluate: a model's outputs and metrics on arrays of samples, in eval mode, without gradients, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.data.dataset import as_float
from laminar.model.modes import evaluating
from laminar.train.dtype import autocast, of_tensors
from laminar.train.job import Job
from laminar.train.losses import loss_name, make_loss

BATCH = 256  # of convolutions more would not stay in the processor's cache: 1,024 take a quarter longer
SUMS = 4  # numbers that figures are made of


def evaluate(
    module: nn.Module,
    inputs: Sequence[NDArray[Any]],
    y: NDArray[Any],
    *,
    task: str,
    batch: int = BATCH,
    dtype: str = "float32",
    loss: str | None = None,
) -> dict[str, float]:
    """{"loss", "accuracy"} for classification, {"loss", "mae", "r2"} for regression; `module(*inputs)` gives the outputs.

    Bytes among the inputs are divided by 255. `loss` is a recipe's word; labels are never smoothed here. Sums are taken in float64.
    r2 pools all target values; where the targets do not vary it is 1 for a perfect answer and 0 for any other.
    """
    return figures(sums(module, inputs, y, slice(0, len(y)), task=task, batch=batch, dtype=dtype, loss=loss), y, task=task)


def sums(
    module: nn.Module,
    inputs: Sequence[NDArray[Any]],
    y: NDArray[Any],
    rows: slice,
    *,
    task: str,
    batch: int = BATCH,
    dtype: str = "float32",
    loss: str | None = None,
) -> list[float]:
    """What figures are made of, over some rows: loss, hits, absolute and squared error. Those of several parts add up."""
    if not len(y):
        raise LaminarError("L103", "there are no samples to judge the model by", hint="give the data a test split, or choose other data")
    classes = task == "classification"
    loss_of = make_loss(loss or ("cross-entropy" if classes else "mse"))
    lost = hits = off = residual = 0.0
    first = rows.start
    for outputs in outputs_of(module, [x[rows] for x in inputs], batch=batch, dtype=dtype):
        given = outputs.double()
        wanted = torch.from_numpy(y[first : first + len(given)])
        first += len(given)
        if classes:
            lost += float(loss_of(given, wanted)) * len(given)
            hits += int((given.argmax(1) == wanted).sum())
        else:
            wanted = wanted.double()
            lost += float(loss_of(given, wanted)) * len(given)
            error = given.reshape(wanted.shape) - wanted
            off += float(error.abs().sum())
            residual += float(error.square().sum())
    _a_row_each(first - rows.start, len(range(len(y))[rows]))
    return [lost, hits, off, residual]


def _a_row_each(rows: int, samples: int) -> None:
    if rows != samples:
        raise LaminarError(
            "L204",
            f"the model answers {samples} samples with {rows} rows",
            hint="its outputs need a row for each sample, whatever the size of the batch",
        )


def sums_of_job(job: Job) -> list[float]:
    """Over the whole test split, of its model as it is."""
    route, data, recipe = job.test_route, job.data, job.recipe
    rows, objective = slice(0, len(data.test.y)), loss_name(recipe, data.task)
    return sums(route.module, route.inputs, data.test.y, rows, task=data.task, dtype=recipe.dtype, loss=objective)


def run_through(module: nn.Module, inputs: Sequence[NDArray[Any]], rows: slice, *, batch: int, dtype: str) -> None:
    """For a module that only does its part of what others need: nothing comes of it here."""
    for _ in outputs_of(module, [x[rows] for x in inputs], batch=batch, dtype=dtype):
        pass


def figures(added: Sequence[float], y: NDArray[Any], *, task: str) -> dict[str, float]:
    """The metrics of all of `y`, from the sums over all of it."""
    lost, hits, off, residual = added
    if task == "classification":
        return {"loss": lost / len(y), "accuracy": hits / len(y)}
    spread = float(np.square(y - y.mean(0, dtype=np.float64)).sum())
    r2 = 1 - residual / spread if spread else float(residual == 0)
    return {"loss": lost / len(y), "mae": off / y.size, "r2": r2}


def predict(module: nn.Module, inputs: Sequence[NDArray[Any]], *, batch: int = BATCH, dtype: str = "float32") -> NDArray[Any]:
    """The model's outputs, one row per sample."""
    outputs: NDArray[Any] = torch.cat(list(outputs_of(module, inputs, batch=batch, dtype=dtype))).numpy()
    _a_row_each(len(outputs), len(inputs[0]))
    return outputs


def outputs_of(module: nn.Module, inputs: Sequence[NDArray[Any]], *, batch: int = BATCH, dtype: str = "float32") -> Iterator[Tensor]:
    """The outputs of one batch after the other."""
    wanted = of_tensors(dtype)
    # no_grad and not inference_mode: what a module remembers of this call may be used in training later
    with evaluating(module), torch.no_grad(), autocast(dtype):
        for first in range(0, len(inputs[0]), batch):
            yield module(*(_tensor(x[first : first + batch], wanted) for x in inputs)).to(wanted)


def _tensor(x: NDArray[Any], wanted: torch.dtype) -> Tensor:
    ready = as_float(x)
    # inputs may be read-only maps of files, and torch has no read-only tensors
    return torch.from_numpy(ready if ready.flags.writeable else ready.copy()).to(wanted)
