"""Losses: what training lowers. Classification has one, regression three; a recipe that mixes them up is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from laminar.core.errors import LaminarError
from laminar.train.recipe import HUBER_DELTA, Recipe

LossOf = Callable[[Tensor, Tensor], Tensor]  # (outputs of the model, targets) -> mean over the batch

_REGRESSION: Final[dict[str, LossOf]] = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "huber": lambda outputs, targets: functional.huber_loss(outputs, targets, delta=HUBER_DELTA),
}


def losses_for(task: str) -> tuple[str, ...]:
    """The losses that fit a task; the first is the one that is meant where none is written."""
    return ("cross-entropy",) if task == "classification" else tuple(_REGRESSION)


def loss_name(recipe: Recipe, task: str) -> str:
    """The loss that is meant, also where the recipe leaves it out."""
    fitting = losses_for(task)
    if recipe.loss is not None and recipe.loss not in fitting:
        raise LaminarError(
            "L004",
            f'loss is "{recipe.loss}", but the data is for {task}, which can be trained with ' + ", ".join(f'"{name}"' for name in fitting),
            hint="leave loss out of train, or choose one of those",
        )
    if recipe.label_smoothing and task != "classification":
        raise LaminarError(
            "L004",
            f"label_smoothing is {recipe.label_smoothing}, but the data is for {task}: there are no labels",
            hint="leave label_smoothing out of train",
        )
    return recipe.loss or fitting[0]


def make_loss(name: str, *, label_smoothing: float = 0.0) -> LossOf:
    if name == "cross-entropy":
        if not label_smoothing:
            return functional.cross_entropy
        return lambda outputs, targets: functional.cross_entropy(outputs, targets, label_smoothing=label_smoothing)
    measure = _REGRESSION[name]
    # (N,) against (N, 1) would be broadcast to (N, N), silently
    return lambda outputs, targets: measure(outputs.reshape(targets.shape), targets)


def guessing(name: str, train: NDArray[Any], test: NDArray[Any], *, classes: int | None) -> float:
    """The loss on `test` of who knows no sample: every class alike, or the mean of the training targets."""
    if classes is not None:
        return math.log(classes)
    wanted = torch.from_numpy(np.array(test, np.float64))
    mean = torch.from_numpy(train.mean(0, dtype=np.float64, keepdims=True))
    return float(make_loss(name)(mean.expand_as(wanted), wanted))
