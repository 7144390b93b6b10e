"""Robust: putting answers together so that a few bad ones do little.

    mean      weighted; one liar moves it as far as he likes
    clip      centred clipping (Karimireddy, He, Jaggi, arXiv 2012.10333): each answer is brought to within a radius of the last step, and
              small attacks that add up over many rounds lose their grip because the centre remembers
    trimmed   the mean of each coordinate without its largest and smallest fifth (Yin et al., arXiv 1803.01498)
    median    of each coordinate

Trimmed mean and median take no notice of weights, and of sparse answers they would leave only zeros: they are refused there (on_grid.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from laminar.train.on_grid import Robust

RADIUS: Final = 2.0  # times the median distance from the centre
FEWEST: Final = 3  # answers below which no majority can be seen
TRIMMED: Final = 0.2  # of the answers, at either end


@torch.no_grad()
def combine(changes: Sequence[Tensor], weights: Sequence[float], how: Robust, centre: Tensor) -> Tensor:
    """One change. Weights sum to 1. `centre`: the last one that came out."""
    if how == "mean" or len(changes) < FEWEST:
        return _mean(changes, weights)
    if how == "clip":
        return _clipped(changes, weights, centre)
    stacked = torch.stack(list(changes))
    if how == "median":
        # of an even number the mean of the two in the middle
        return stacked.quantile(0.5, dim=0) if stacked.numel() < 1 << 24 else stacked.median(dim=0).values
    cut = max(1, int(TRIMMED * len(changes)))
    return stacked.sort(dim=0).values[cut : len(changes) - cut].mean(dim=0)


def combine_buffers(values: Sequence[NDArray[np.float64]], weights: Sequence[float], how: Robust) -> NDArray[np.float64]:
    """Batch statistics and the like: the median of each number where there are enough, for nothing else holds them in bounds."""
    stacked = np.stack(list(values))
    found: NDArray[np.float64] = (
        np.average(stacked, axis=0, weights=list(weights)) if how == "mean" or len(values) < FEWEST else np.median(stacked, axis=0)
    )
    return np.where((stacked == stacked[0]).all(0), stacked[0], found)  # what all say is not rounded


def _mean(changes: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    total = torch.zeros_like(changes[0])
    for change, weight in zip(changes, weights, strict=True):
        total.add_(change, alpha=weight)
    return total


def _clipped(changes: Sequence[Tensor], weights: Sequence[float], centre: Tensor) -> Tensor:
    apart = torch.empty_like(centre)  # used again and again: a new one for each answer costs as much as the subtraction
    distances = [float(torch.linalg.vector_norm(torch.sub(change, centre, out=apart))) for change in changes]
    radius = RADIUS * sorted(distances)[(len(distances) - 1) // 2]
    total = centre.clone()
    for change, weight, far in zip(changes, weights, distances, strict=True):
        scale = 1.0 if far <= radius or far == 0 else radius / far
        total.add_(torch.sub(change, centre, out=apart), alpha=weight * scale)
    return total
