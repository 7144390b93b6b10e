"""Models that ask something of workers that train apart: sparse gradients, statistics of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from apart_team import Outcome, data, job, train_apart
from torch import Tensor, nn

from laminar.core.errors import LaminarError
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


def with_statistics() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


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


def test_a_worker_with_one_row_of_a_batch_says_why_batch_statistics_fail(tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        train_apart(tmp_path, lambda: job(tmp_path, model=with_statistics, strategy=STRATEGIES["quorum"], batch=2))
    assert caught.value.code == "L606"
    assert "this worker has 1 row of a batch of 2, which 2 workers share" in caught.value.message
    assert caught.value.hint.startswith("batch = 4 in train, workers = 1 in strategy, or another norm than BatchNorm")


@pytest.mark.parametrize("name", ["averaging", "downpour"])
def test_workers_with_whole_batches_need_two_rows_in_each(name: str, tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        train_apart(tmp_path, lambda: job(tmp_path, model=with_statistics, strategy=STRATEGIES[name], batch=1, dataset=data(train=16)))
    assert caught.value.code == "L606" and "the batch has 1 row" in caught.value.message
    assert caught.value.hint.startswith("batch = 2 or more in train, or another norm")
