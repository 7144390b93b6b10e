"""Models whose gradients torch makes sparse: trained as if they were dense, at no cost for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from train_jobs import Net, events, job, same_bits, stop_at, tensors

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.model.graph_export import archive_of, traced
from laminar.train.dense import make_dense
from laminar.train.job import Job
from laminar.train.loop import train

WORDS = 40


def words(train: int = 50, test: int = 20) -> Dataset:
    """Five words each; the class is in the first. Words repeat within a row, and most are in no row of a batch."""
    x = np.random.default_rng(3).integers(0, WORDS, (train + test, 5))
    x[:, 4] = x[:, 3]
    y = (x[:, 0] % 3).astype(np.int64)
    x = x.astype(np.float32)
    return Dataset(Split(x[:train], y[:train]), Split(x[train:], y[train:]), ("a", "b", "c"))


class Words(nn.Module):
    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.bag = nn.Embedding(WORDS, 6, sparse=sparse), nn.EmbeddingBag(WORDS, 6, mode="sum", sparse=sparse)
        self.more, self.head = nn.Parameter(torch.randn(WORDS, 6)), nn.Linear(18, 3)
        self.sparse = sparse

    def forward(self, x: Tensor) -> Tensor:
        x = x.long()
        by_hand = F.embedding(x[:, 0], self.more, sparse=self.sparse)
        out: Tensor = self.head(torch.cat([self.table(x).mean(1), self.bag(x), by_hand], 1))
        return out


def both(folder: Path, **options: Any) -> tuple[Job, Job]:
    """Trained with sparse gradients, and with dense ones."""
    found = []
    for sparse in (True, False):
        made = job(folder / str(sparse), model=Words(sparse=sparse), data=words(), epochs=2, **options)
        train(made)
        found.append(made)
    return found[0], found[1]


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "sgd", "lr": 0.1},
        {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "clip": 0.5},
        {"optimizer": "adam"},
        {"optimizer": "adamw", "accumulate": 3},
        {"optimizer": "adagrad", "clip": 0.1, "accumulate": 2},
        {"optimizer": "lars", "lr": 0.1},
        {"optimizer": "lamb"},
        {"optimizer": "adam", "frozen": ["bag"]},
        {"optimizer": "adam", "dtype": "float64"},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_sparse_gradients_train_as_dense_ones_do(options: dict[str, Any], tmp_path: Path) -> None:
    sparse, dense = both(tmp_path, **options)
    for name, tensor in tensors(dense).items():
        torch.testing.assert_close(tensors(sparse)[name], tensor, rtol=1e-5, atol=1e-6)  # the kernels of bags add up in another order
    assert not torch.equal(sparse.model.get_parameter("table.weight"), Words(sparse=True).table.weight)


def test_a_scaled_loss_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.train.dtype.probe", lambda _: None)
    monkeypatch.setattr("laminar.train.dtype.autocast", lambda _: torch.autocast("cpu", enabled=False))  # half kernels are not everywhere
    sparse, dense = both(tmp_path, optimizer="adam", dtype="float16", clip=0.5)
    for name, tensor in tensors(dense).items():
        torch.testing.assert_close(tensors(sparse)[name], tensor, rtol=1e-5, atol=1e-6)


def test_a_resumed_training_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def made(folder: Path) -> Job:
        return job(folder, model=Words(sparse=True), data=words(), checkpoint_steps=1)

    whole, again = made(tmp_path / "whole"), made(tmp_path / "again")
    train(whole)
    stop_at(again, 5, how="interrupt")
    with pytest.raises(KeyboardInterrupt):
        train(again)
    again = made(tmp_path / "again")
    assert train(again).resumed_from is not None
    assert same_bits(tensors(whole), tensors(again))


def test_the_model_is_left_as_its_author_made_it(tmp_path: Path) -> None:
    model = Words(sparse=True)
    kept: list[Tensor] = []
    model.more.register_hook(kept.append)  # the author's own
    example = torch.from_numpy(words().train.x)
    before = archive_of(model, traced(model, example, training=True))
    train(job(tmp_path, model=model, data=words(), epochs=1))
    assert model.table.sparse and model.bag.sparse
    assert [p._backward_hooks is None for p in model.parameters()] == [p is not model.more for p in model.parameters()]
    assert len(kept) == 4 and all(grad.is_sparse for grad in kept)
    assert archive_of(model, traced(model, example, training=True)) == before


def test_other_models_have_no_hooks_after_the_first_step(tmp_path: Path) -> None:
    """A hook that does nothing costs a third of a microsecond at every step."""
    made = job(tmp_path, model=Net(), epochs=1)
    seen: list[list[bool]] = []
    made.model.register_forward_pre_hook(lambda m, _: seen.append([p._backward_hooks is None for p in m.parameters()]))
    train(made)
    assert not any(seen[0]) and all(all(one) for one in seen[1:]) and len(seen) > 2


class Late(Words):
    """The gradient of its table is dense at first, as of a table that something else looks at, too."""

    def __init__(self) -> None:
        super().__init__(sparse=True)
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += self.training
        out: Tensor = super().forward(x)
        return out + 0 * self.table.weight.sum() if self.seen < 3 else out


@pytest.mark.parametrize("options", [{"optimizer": "adam"}, {"optimizer": "lamb"}, {"optimizer": "sgd", "clip": 0.1}], ids=str)
def test_a_gradient_that_becomes_sparse_later_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"the gradient of 'table.weight' is sparse at step 2 of epoch 0") as caught:
        train(job(tmp_path, model=Late(), data=words(), **options))
    assert caught.value.code == "L606" and "sparse=False" in caught.value.hint
    assert "'table.weight' is sparse" in events(tmp_path, "failed")[0]["why"]


def test_a_gradient_that_is_put_in_its_place_by_others_is_left_alone() -> None:
    """As those of the weights of a pipeline are, which may be computed later: what goes through the engine is nothing."""

    class Apart(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, weight: Tensor) -> Tensor:  # noqa: ARG004
            return weight.detach() * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> None:  # noqa: ARG004
            weight.grad = grad * 2

    weight = nn.Parameter(torch.ones(3))
    leave = make_dense([weight])
    Apart.apply(weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2, 2, 2] and weight._backward_hooks is None
    leave()
