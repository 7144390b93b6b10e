"""Models with a frozen part, and one training loop that any route can be put into."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laminar.data.dataset import Dataset, Split, as_float
from laminar.data.order import permutation
from laminar.model.freeze import Frozen, freeze
from laminar.train.job import Route
from laminar.train.recipe import Recipe

SHAPE = (1, 8, 8)


class Cnn(nn.Module):
    """Frozen: convolutions with BatchNorm. Trained: a head with BatchNorm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.5)
        )
        self.flatten = nn.Flatten()
        self.head = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.flatten(self.features(x)))


class Residual(nn.Module):
    """The trained part sees the sample, too."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.left = nn.Linear(4, 3)
        self.right = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(self.body(x)) + self.right(x.flatten(1))


class TwoBranches(nn.Module):
    """Two features reach the trained part at different depths."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(1, 2, 3, stride=2)
        self.b = nn.Conv2d(2, 4, 3)
        self.near = nn.Linear(18, 3)
        self.far = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.tanh(self.a(x))
        second = self.b(first)
        return self.near(first.flatten(1)) * torch.sigmoid(self.far(second.flatten(1)))


class InPlace(nn.Module):
    """The trained part writes into what the frozen part returned, and reads a size from the sample."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.bias = nn.Parameter(torch.ones(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            value = F.relu_(self.conv(x))
        value = value.mean((2, 3)).view(x.shape[0], -1)
        value += self.bias
        value *= 2
        return self.head(value)


class Centre(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), Centre(), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x)


class Noisy(nn.Module):
    """Noise that freezing does not switch off, before or behind the first frozen tensor."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        linear = [nn.Flatten(), nn.Linear(64, 8)]
        self.body = nn.Sequential(Noise(), *linear) if first else nn.Sequential(*linear, Noise(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Branching(nn.Module):
    """Control flow that depends on the data: torch.export refuses it."""

    def __init__(self, mixing: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU()
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), *([Centre()] if mixing else []))
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        value = self.drop(self.pool(self.act(self.norm(self.stem(x)))))
        if float(value.detach().sum()) > 1e9:
            value = value * 0.5
        return self.head(value)


class Counting(nn.Module):
    """Counts the samples that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.inner = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.inner(x)


def data(train: int = 96, test: int = 20, *, seed: int = 0, dtype: Any = np.uint8) -> Dataset:
    rng = np.random.default_rng(seed)

    def split(n: int) -> Split:
        x = rng.integers(0, 256, (n, *SHAPE), dtype=np.uint8)
        return Split(x if dtype is np.uint8 else as_float(x), rng.integers(0, 3, n))

    return Dataset(split(train), split(test), ("a", "b", "c"))


def fit(model: nn.Module, frozen: Frozen, route: Route, y: Any, recipe: Recipe) -> dict[str, Tensor]:
    """The plainest training there is; the weights and buffers afterwards."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer: torch.optim.Optimizer = (
        torch.optim.Adam(trained, lr=recipe.rate) if recipe.optimizer == "adam" else torch.optim.SGD(trained, lr=recipe.rate, momentum=0.9)
    )
    torch.manual_seed(recipe.seed)
    for epoch in range(recipe.epochs):
        model.train()
        frozen.keep()
        order = permutation(len(y), recipe.seed, "epoch", epoch)
        for first in range(0, len(y), recipe.batch):
            at = order[first : first + recipe.batch]
            batch = [torch.from_numpy(np.array(as_float(np.take(x, at, axis=0)))) for x in route.inputs]
            optimizer.zero_grad()
            F.cross_entropy(route.module(*batch), torch.from_numpy(y[at])).backward()
            optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def frozen_model(kind: Any, paths: list[str], *args: Any, seed: int = 3) -> tuple[nn.Module, Frozen]:
    torch.manual_seed(seed)
    model = kind(*args)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):  # statistics as after some training
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2)
    return model, freeze(model, paths)
