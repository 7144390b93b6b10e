"""Jobs that are measured in tests: an MLP, a CNN, a transformer block, a model that cannot be traced; and quick profiles of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laminar.data.dataset import Dataset, Split
from laminar.plan.profile.busy import Quiet, Reading
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.measure import Profile
from laminar.plan.profile.meter import Meter
from laminar.plan.profile.timing import SHORT
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from tests.torch.parallel.split_models import Block, Cnn, Words, mlp


class Sentences(nn.Module):
    """Samples are always real numbers, and words are numbered."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words(Block())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.words(x.long())
        return out


class Untraceable(nn.Module):
    """Decides by what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.act, self.head = nn.Linear(784, 16), nn.ReLU(inplace=True), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.inner(x.flatten(1)))
        if float(y.detach().sum()) > 1e9:
            y = -y
        out: Tensor = self.head(y.tanh())
        return out


def job(model: nn.Module, folder: Path, *, rows: int = 200, batch: int = 16, words: bool = False, **options: Any) -> Job:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 50, (rows, 10)).astype(np.float32) if words else rng.random((rows, 1, 28, 28)).astype(np.float32)
    y = rng.integers(0, 10, rows).astype(np.int64)
    data = Dataset(Split(x, y), Split(x[:20], y[:20]), tuple("0123456789"))
    return Job("layer", model, data, Recipe(epochs=2, batch=batch, **options), None, folder, tensorboard=False)


def made(name: str, folder: Path, **options: Any) -> Job:
    torch.manual_seed(0)
    kinds = {"mlp": mlp, "cnn": Cnn, "words": Sentences, "untraceable": Untraceable}
    return job(kinds[name](), folder, words=name == "words", **options)


def calm() -> Quiet:
    """Tests run beside others; here nobody is ever busy."""
    clock = iter(range(1 << 30))
    return Quiet(read=lambda: Reading(float(next(clock)), 0.0, 0.0), sleep=lambda _: None)


def profile(one: Job, path: Path | None = None) -> Profile:
    return Profile(one, Meter(Kept(path), quiet=calm(), effort=SHORT))
