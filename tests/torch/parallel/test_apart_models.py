"""Models that ask something of workers that train apart: sparse gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from apart_team import Outcome, job, train_apart
from torch import Tensor, nn

from laminar.train.strategies import Averaging, Downpour, Quorum

STRATEGIES = {
    "downpour": Downpour(workers=1),
    "quorum": Quorum(workers=2, quorum=1.0),
    "averaging": Averaging(workers=2, every=2),
}


class Words(nn.Module):
    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.bag = nn.Embedding(8, 5, sparse=sparse), nn.EmbeddingBag(8, 5, mode="sum", sparse=sparse)
        self.head = nn.Linear(35, 3)

    def forward(self, x: Tensor) -> Tensor:
        at = (x + 4).long().clamp(0, 7)
        out: Tensor = self.head(torch.cat([self.table(at).flatten(1), self.bag(at)], 1))
        return out


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(
    "options", [{"optimizer": "adam", "lr": 0.01, "clip": 0.5}, {"optimizer": "lamb", "lr": 0.01}], ids=lambda o: str(o["optimizer"])
)
def test_workers_learn_from_sparse_gradients_what_they_learn_from_dense_ones(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    def learned(*, sparse: bool) -> Outcome:
        folder = tmp_path / str(sparse)
        return train_apart(folder, lambda: job(folder, model=lambda: Words(sparse=sparse), strategy=STRATEGIES[name], epochs=2, **options))

    found = learned(sparse=True).weights
    for tensor, value in learned(sparse=False).weights.items():
        torch.testing.assert_close(found[tensor], value, rtol=1e-4, atol=1e-5)
