"""Probe: before features are kept, it is proved on a few samples that keeping them changes nothing.

Pure: the same samples give the same features twice, and among other neighbours in a batch of another size.
Faithful: the trained part on features gives what the whole model gives, in training and in eval mode, for one seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from laminar.data.dataset import as_float
from laminar.model.prefix import Cut, Keeps, Prefix, as_it_was, eval_mode, training_mode
from laminar.model.prefix_split import close

TOLERANCE: Final = 1e-5  # of the largest value: kernels for other batch sizes may sum in another order
SAMPLES: Final = 6
LEAST_RUNS, MOST_RUNS, MOST_SECONDS = 2, 8, 0.1


def impurity(model: nn.Module, frozen: Keeps, prefix: Prefix, samples: Tensor) -> str:
    """Why the features of this prefix may not be kept; "" when they may. `samples` are a dozen, spread over the data."""
    with as_it_was(model):
        for cut, mode in ((prefix.fit, "training"), (prefix.test, "evaluation")):
            if mode == "training":
                training_mode(model, frozen)
            else:
                eval_mode(model)
            try:
                why = _impure(cut, samples) or _unfaithful(model, cut, samples)
            except RuntimeError as error:
                first = str(error).strip().splitlines()
                why = f"the frozen part fails when it runs alone: {first[0] if first else type(error).__name__}"
            if why:
                return f"in {mode}, {why}"
    return ""


def _impure(cut: Cut, samples: Tensor) -> str:
    few = samples[: max(1, min(SAMPLES, len(samples) // 2))]
    strangers = samples[len(few) :]
    first, again, among = features(cut, few), features(cut, few), features(cut, torch.cat([few, strangers]))
    for one, two in zip(first, again, strict=True):
        if not close(one, two, TOLERANCE):
            where = cut.locate(few, few, TOLERANCE) or "the frozen part"
            return f"{where} gives the same samples other features the second time"
    for one, two in zip(first, among, strict=True):
        if not close(one, two[: len(few)], TOLERANCE):
            where = cut.locate(few, torch.cat([few, strangers]), TOLERANCE) or "the frozen part"
            return f"{where} gives a sample other features among other samples: it mixes the batch"
    return ""


def _unfaithful(model: nn.Module, cut: Cut, samples: Tensor) -> str:
    outputs: list[Any] = []
    for by_parts in (False, True):
        with torch.no_grad(), as_it_was(model):
            torch.manual_seed(0)
            outputs.append(cut.suffix(*features(cut, samples)) if by_parts else model(samples.clone()))
    whole, parts = outputs
    if not (isinstance(whole, Tensor) and isinstance(parts, Tensor)):
        return "the model returns something other than one tensor"
    if not bool(torch.isfinite(whole).all()):
        return "the model's output is not finite"
    return "" if close(whole, parts, TOLERANCE) else "the model cut in two gives another output than the whole model"


@torch.no_grad()
def features(cut: Cut, batch: Tensor) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = cut.features(batch.clone())  # a model may write into its input
    return found


def spread(x: NDArray[Any], count: int) -> Tensor:
    """`count` samples from all over the data, as the model sees them."""
    at = np.unique(np.linspace(0, len(x) - 1, num=min(count, len(x))).astype(np.int64))
    return torch.from_numpy(np.array(as_float(np.asarray(x[at])), copy=True))


def seconds_per_sample(cut: Cut, x: NDArray[Any], batch: int) -> float:
    """The prefix, timed on one batch of training's size."""
    return _best(lambda chunk: features(cut, chunk), x, batch)


def seconds_of_all(model: nn.Module, frozen: Keeps, x: NDArray[Any], batch: int) -> float:
    """The whole model forward, a sample, as in training. Nothing about it is changed."""
    with torch.no_grad(), as_it_was(model):
        training_mode(model, frozen)
        return _best(model, x, batch)


def _best(run: Callable[[Tensor], Any], x: NDArray[Any], batch: int) -> float:
    """The best of a few runs, as other work can only slow one down: threads that wait for a neighbour take a hundred times longer."""
    chunk = torch.from_numpy(np.array(as_float(np.asarray(x[:batch])), copy=True))
    times: list[float] = []
    while len(times) < LEAST_RUNS or (len(times) < MOST_RUNS and sum(times) < MOST_SECONDS):
        start = time.perf_counter()
        run(chunk)
        times.append(time.perf_counter() - start)
    return min(times) / len(chunk)
