"""A small network that is really trained, with batch statistics."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from laminar.grid.population.crowd import Crowd
from laminar.grid.settings import Settings
from laminar.grid.wire.messages import Task
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

FEATURES, CLASSES, CLOUDS, BATCH = 32, 10, 3, 64


class Net:
    """Which class a point is of, when each has several clouds: not linear, and hard enough to show what was lost."""

    settings: Settings

    def __init__(self, seed: int, hidden: int = 64, *, apart: float = 0.8) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(FEATURES, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES)
        )
        self.params, self.buffers = list(self.model.parameters()), list(self.model.buffers())
        self._centres = torch.randn(CLASSES * CLOUDS, FEATURES) * apart
        self._test = self._draw(torch.Generator().manual_seed(seed + 1), 2000)
        self.first = self.row() + self.flat_buffers().tobytes()

    def _draw(self, dice: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        cloud = torch.randint(0, CLASSES * CLOUDS, (count,), generator=dice)
        return self._centres[cloud] + torch.randn(count, FEATURES, generator=dice), cloud % CLASSES

    def row(self) -> bytes:
        return parameters_to_vector(self.params).detach().numpy().tobytes()

    def flat_buffers(self) -> np.ndarray:
        return torch.cat([buffer.double().reshape(-1) for buffer in self.buffers]).numpy()

    def settings_of(self, grid: Grid, *, lr: float, momentum: float, gradients: bool, seed: int) -> Settings:
        recipe = Recipe(epochs=1000, batch=BATCH, optimizer="sgd", lr=lr, momentum=momentum, seed=seed, strategy=grid)
        shapes = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        buffers = len(self.flat_buffers())
        return Settings(
            recipe=recipe,
            rounds=grid.rounds or 100,
            batches=100,
            epoch_samples=100 * BATCH,
            local=False,
            parameters=shapes,
            buffers=buffers,
            gradients=gradients,
        )

    def load(self, version: bytes) -> Tensor:
        numel = sum(p.numel() for p in self.params)
        row = torch.frombuffer(bytearray(version[: 4 * numel]), dtype=torch.float32)
        vector_to_parameters(row.clone(), self.params)
        values, at = np.frombuffer(version, "<f8", offset=4 * numel), 0
        for buffer in self.buffers:
            buffer.copy_(torch.from_numpy(values[at : at + buffer.numel()].copy()).view(buffer.shape))
            at += buffer.numel()
        return row

    def work(self, version: bytes, task: Task) -> tuple[Tensor, np.ndarray]:
        """The change, or the gradient, and the buffers afterwards."""
        row, settings = self.load(version), self.settings
        dice = torch.Generator().manual_seed(task.seed)
        self.model.train()
        for _ in range(task.steps):
            x, y = self._draw(dice, BATCH)
            self.model.zero_grad()
            cross_entropy(self.model(x), y).backward()
            if settings.gradients:
                return parameters_to_vector([p.grad for p in self.params if p.grad is not None]), self.flat_buffers()
            with torch.no_grad():
                for p in self.params:
                    assert p.grad is not None
                    p -= settings.recipe.rate * p.grad
        return row - parameters_to_vector(self.params).detach(), self.flat_buffers()

    @torch.no_grad()
    def accuracy(self, version: bytes) -> float:
        self.load(version)
        self.model.eval()
        x, y = self._test
        return float((self.model(x).argmax(dim=1) == y).float().mean())


class NetCrowd(Crowd):
    def __init__(
        self, kinds: list[str], grid: Grid, *, seed: int = 0, hidden: int = 64, lr: float = 0.1, gradients: bool = False, away: float = 0.0
    ) -> None:
        net = Net(seed, hidden)
        net.settings = net.settings_of(grid, lr=lr, momentum=0.9 if gradients else 0.0, gradients=gradients, seed=seed)
        super().__init__(net, kinds, seed=seed, away=away)
