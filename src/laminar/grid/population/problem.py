"""Problem: something small that is really learned: which of several clouds of points a point is of, by softmax regression, in numpy.

Small enough for a hundred thousand tasks, and yet what matters is there: a node's work depends on version, seed and steps alone, honest
answers agree, lies show in the accuracy.
"""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from laminar.grid.settings import Settings
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe

FEATURES: Final = 16
CLASSES: Final = 6
TEST: Final = 2000
Floats = NDArray[np.float32]


@final
class Clouds:
    def __init__(self, seed: int, *, apart: float = 1.15) -> None:
        dice = np.random.Generator(np.random.PCG64(seed))
        self._centres = (dice.standard_normal((CLASSES, FEATURES)) * apart / np.sqrt(2)).astype(np.float32)
        self._test = self._draw(dice, TEST)

    @staticmethod
    def settings(grid: Grid, *, batch: int = 32, lr: float = 0.1, seed: int = 0) -> Settings:
        recipe = Recipe(epochs=1000, batch=batch, optimizer="sgd", lr=lr, seed=seed, strategy=grid)
        shape: dict[str, tuple[int, ...]] = {"weight": (CLASSES, FEATURES + 1)}
        return Settings(
            recipe=recipe,
            rounds=grid.rounds or 100,
            batches=100,
            daemons=grid.own_daemons,
            epoch_samples=100 * batch,
            local=False,
            parameters=shape,
            buffers=0,
            gradients=False,
        )

    @staticmethod
    def first() -> bytes:
        return np.zeros(CLASSES * (FEATURES + 1), np.float32).tobytes()

    def _draw(self, dice: np.random.Generator, count: int) -> tuple[Floats, NDArray[np.int64]]:
        y = dice.integers(0, CLASSES, count)
        x = self._centres[y] + dice.standard_normal((count, FEATURES)).astype(np.float32)
        return np.concatenate([x, np.ones((count, 1), np.float32)], axis=1), y

    def work(self, row: Floats, seed: int, steps: int, settings: Settings) -> Floats:
        """The change that so many steps make, from start to end: start - end."""
        dice = np.random.Generator(np.random.PCG64(seed))
        weight = row.reshape(CLASSES, FEATURES + 1).copy()
        rate, batch = np.float32(settings.recipe.rate), settings.recipe.batch
        x, y = self._draw(dice, steps * batch)
        for step in range(steps):
            some, label = x[step * batch : (step + 1) * batch], y[step * batch : (step + 1) * batch]
            scores = some @ weight.T
            scores -= scores.max(axis=1, keepdims=True)
            share = np.exp(scores)
            share /= share.sum(axis=1, keepdims=True)
            share[np.arange(batch), label] -= 1
            weight -= rate / np.float32(batch) * (share.T @ some)
        return row - weight.reshape(-1)

    def accuracy(self, row: Floats) -> float:
        x, y = self._test
        return float(((x @ row.reshape(CLASSES, FEATURES + 1).T).argmax(axis=1) == y).mean())
