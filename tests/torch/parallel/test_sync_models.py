"""Models that ask something of a team of sync, in shared memory and over torch.distributed: members are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.parallel.segment import Segment
from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.links import layout_of
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.recipe import Recipe
from laminar.train.strategies import Sync

LINKS = ["memory", "gloo"]
WORDS = 30


def job(folder: Path, model: nn.Module, *, samples: int = 22, compress: Any = "none", workers: int = 2, **recipe: Any) -> Job:
    x = np.random.default_rng(0).integers(0, WORDS, size=(samples, 4)).astype(np.float32)
    y = (x[:, 0] % 2).astype(np.int64)
    how = Recipe(**{"epochs": 2, "batch": 8, "lr": 0.1, "strategy": Sync(workers=workers, compress=compress)} | recipe)
    folder.mkdir(parents=True)
    return Job("layer", model, Dataset(Split(x, y), Split(x, y), ("a", "b")), how, None, folder, tensorboard=False)


def team(link: str, folder: Path, make: Callable[[], nn.Module], size: int = 2, **options: Any) -> list[Job]:
    """The jobs of the members, trained; the first error of any."""
    jobs = [job(folder / str(rank), make(), workers=size, **options) for rank in range(size)]
    segment, store = Segment.create(layout_of(jobs[0], size).total), serve_store("127.0.0.1", None)
    errors: list[BaseException] = []

    def one(rank: int) -> None:
        made = jobs[rank]
        try:
            if link == "memory":
                made.team = SharedTeam(segment, layout_of(made, size), rank, model=made.model)
            else:
                made.team = GroupTeam(Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=20))
            train(made)
        except BaseException as error:
            errors.append(error)
            if isinstance(made.team, SharedTeam):
                made.team.meeting.call_off()
            made.team = None  # of a group its others find that it is gone

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for made in jobs:  # out of the shared memory
        for parameter in made.model.parameters():
            parameter.data = parameter.data.clone()
    segment.close()
    if errors:
        raise errors[0]
    return jobs


class Words(nn.Module):
    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.bag = nn.Embedding(WORDS, 5, sparse=sparse), nn.EmbeddingBag(WORDS, 5, mode="sum", sparse=sparse)
        self.head = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.cat([self.table(x.long()).mean(1), self.bag(x.long())], 1))
        return out


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam"},
        {"optimizer": "sgd", "momentum": 0.9, "clip": 0.3},
        {"optimizer": "adagrad", "accumulate": 2},
        {"optimizer": "lamb", "lr": 0.01},
        {"optimizer": "adamw", "compress": "fp16", "accumulate": 2},
        {"optimizer": "sgd", "momentum": 0.9, "compress": "dgc"},
        {"optimizer": "sgd", "compress": "powersgd"},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_a_team_learns_from_sparse_gradients_what_it_learns_from_dense_ones(link: str, options: dict[str, Any], tmp_path: Path) -> None:
    sparse = team(link, tmp_path / "sparse", lambda: Words(sparse=True), **options)
    dense = team(link, tmp_path / "dense", lambda: Words(sparse=False), **options)
    for name, tensor in dense[0].model.state_dict().items():
        torch.testing.assert_close(sparse[0].model.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)


class Late(Words):
    """The gradient of its table is dense at first."""

    def __init__(self) -> None:
        super().__init__(sparse=True)
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += self.training
        out: Tensor = super().forward(x)
        return out + 0 * self.table.weight.sum() if self.seen < 3 else out


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("compress", ["none", "fp16"])
def test_a_gradient_that_becomes_sparse_later_is_refused(link: str, compress: str, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"the gradient of 'table.weight' is sparse at step 2 of epoch 0") as caught:
        team(link, tmp_path, Late, compress=compress)
    assert caught.value.code == "L606"


def with_statistics() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


@pytest.mark.parametrize("link", LINKS)
def test_a_member_with_one_row_of_a_batch_says_why_batch_statistics_fail(link: str, tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        team(link, tmp_path, with_statistics, size=3, batch=3)
    assert caught.value.code == "L606"
    assert "this worker has 1 row of a batch of 3, which 3 workers share" in caught.value.message
    assert caught.value.hint.startswith("batch = 7 in train, workers = 1 in strategy, or another norm than BatchNorm")


class Permuted(nn.Module):
    """Weights that do not lie in memory as their shapes have them."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.conv, self.line, self.head = nn.Conv2d(2, 3, (1, 2)), nn.Linear(6, 5), nn.Linear(5, 2)
        if layout == "permuted":
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.line.weight = nn.Parameter(self.line.weight.detach().t().contiguous().t())
        if layout == "gaps":
            self.line.weight = nn.Parameter(self.line.weight.detach().repeat_interleave(2, 1)[:, ::2])

    def forward(self, x: Tensor) -> Tensor:
        found = torch.tanh(self.conv((x / WORDS).reshape(-1, 2, 1, 2).repeat(1, 1, 2, 1)))
        out: Tensor = self.head(torch.tanh(self.line(found.flatten(1))))
        return out


@pytest.mark.parametrize("layout", ["permuted", "gaps"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam"},
        {"optimizer": "sgd", "momentum": 0.9, "clip": 0.3},
        {"optimizer": "adagrad", "accumulate": 2},
        {"optimizer": "lamb", "lr": 0.01},
        {"optimizer": "adamw", "compress": "fp16"},
        {"optimizer": "sgd", "momentum": 0.9, "compress": "powersgd"},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_a_team_learns_the_same_in_any_layout(link: str, layout: str, options: dict[str, Any], tmp_path: Path) -> None:
    odd = team(link, tmp_path / "odd", lambda: Permuted(layout), **options)
    usual = team(link, tmp_path / "usual", lambda: Permuted("contiguous"), **options)
    for name, tensor in usual[0].model.state_dict().items():
        torch.testing.assert_close(odd[0].model.state_dict()[name], tensor, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("link", LINKS)
def test_a_member_refuses_several_elements_in_one_place(link: str, tmp_path: Path) -> None:
    def expanded() -> nn.Module:
        model = nn.Linear(4, 2)
        model.bias = nn.Parameter(torch.zeros(1).expand(2))
        return model

    with pytest.raises(LaminarError, match="the parameter 'bias' of shape") as caught:
        team(link, tmp_path, expanded)
    assert caught.value.code == "L606"
