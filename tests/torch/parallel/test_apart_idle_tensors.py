"""A tensor that has a gradient in some steps only: in the others one process leaves it alone, and so do servers and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from apart_team import job, train_apart
from test_apart_numerics import furthest
from torch import Tensor, nn

from laminar.parallel.apart.numbers import OptimizerStep
from laminar.parallel.compress.layout import Layout
from laminar.parallel.sync.small_gradients import SmallGradients
from laminar.train.compression import Dgc
from laminar.train.loop import train
from laminar.train.recipe import Recipe
from laminar.train.strategies import Averaging, Downpour, Quorum, Sync


class Sometimes(nn.Module):
    """Of every three batches one goes through `extra`, and none through `never`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.body, self.extra, self.head, self.never = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3), nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        out = torch.tanh(self.body(x))
        if self.training:
            self.calls += 1
        return self.head(self.extra(out) if self.calls % 3 == 1 else out)


RECIPES: dict[str, dict[str, Any]] = {
    "momentum": {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.05},
    "adam": {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.05},
    "lamb": {"optimizer": "lamb", "lr": 0.01, "weight_decay": 0.05},
}
STRATEGIES: dict[str, Any] = {
    "quorum": Quorum(workers=2, quorum=1.0),
    "averaging": Averaging(workers=1, every=4),
    "gradients": Downpour(workers=1, shards=2, n_push=1, n_fetch=1, overlap=False),
    "steps": Downpour(workers=1, shards=3, n_push=5, n_fetch=5, push="steps"),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_it_is_trained_as_one_process_trains_it(tmp_path: Path, name: str, recipe: str) -> None:
    alone = job(tmp_path / "solo", model=Sometimes, **RECIPES[recipe])
    train(alone)
    found = train_apart(
        tmp_path / "apart", lambda: job(tmp_path / "apart", model=Sometimes, strategy=STRATEGIES[name], **RECIPES[recipe])
    ).weights
    assert furthest(found, alone.model.state_dict()) < 1e-5
    assert torch.equal(found["never.weight"], Sometimes().never.weight)


DGC = Dgc(sparsity=0.5, warmup_epochs=0, sample=1.0)


@pytest.mark.parametrize("how", [Quorum(workers=2, compress=DGC), Downpour(workers=2, shards=2, compress=DGC)], ids=["quorum", "downpour"])
def test_packets_with_decay_in_them_leave_alone_what_has_no_gradient(tmp_path: Path, how: Any) -> None:
    recipe = {"momentum": 0.9, "weight_decay": 0.5, "lr": 0.01, "model": Sometimes}
    found = train_apart(tmp_path, lambda: job(tmp_path, strategy=how, **recipe)).weights
    assert torch.equal(found["never.weight"], Sometimes().never.weight)
    assert not torch.equal(found["extra.weight"], Sometimes().extra.weight)


def test_members_of_sync_do_not_put_the_decay_of_what_has_no_gradient_into_their_packets() -> None:
    recipe = Recipe(epochs=1, optimizer="sgd", weight_decay=0.5, momentum=0.9, strategy=Sync(workers=1, compress=Dgc(sparsity=0.01)))
    params = {name: torch.ones(4) for name in ("used", "unused")}
    small = SmallGradients(recipe, params, 1)
    small.decode([small.encode([torch.ones(4), None], 9.0)])
    assert small.result[0].tolist() == [1.5] * 4 and small.result[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("rows", [[True, False], [False, False]])
def test_a_member_without_rows_does_its_share_of_the_decay(rows: list[bool]) -> None:
    """Or the mean of all would be too small. In a step in which nobody has a gradient momentum goes on, and decay with it."""
    small = Dgc(sparsity=0.0, warmup_epochs=0, values="float32")
    recipe = Recipe(epochs=1, optimizer="sgd", weight_decay=0.5, strategy=Sync(workers=2, compress=small))
    members = [SmallGradients(recipe, {"w": torch.ones(4)}, 2) for _ in range(2)]
    for have in ([True, True], rows):
        packets = [member.encode([torch.ones(4) / 2 if one else None], 9.0) for member, one in zip(members, have, strict=True)]
        members[0].decode(packets)
        assert members[0].result[0].tolist() == [0.5 + sum(have) / 2] * 4


class Rarely(Sometimes):
    """`extra` is for batches that begin with a large number."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.tanh(self.body(x))
        return self.head(self.extra(out) if float(x[0, 0]) > 0.8 else out)


@pytest.mark.parametrize(
    "how",
    [
        Quorum(workers=1, compress=DGC),
        Downpour(workers=1, shards=2, n_push=1, n_fetch=1, overlap=False, compress=DGC),
    ],
    ids=["quorum", "downpour"],
)
def test_what_decays_is_kept_over_an_interruption(tmp_path: Path, how: Any) -> None:
    recipe = {"momentum": 0.9, "weight_decay": 0.5, "lr": 0.05, "model": Rarely, "strategy": how}
    whole = train_apart(tmp_path / "whole", lambda: job(tmp_path / "whole", **recipe)).weights
    for attempt, stop in ((1, 8), (2, 9), (3, None)):
        found = train_apart(tmp_path / "parted", lambda: job(tmp_path / "parted", **recipe), attempt=attempt, stop_after=stop).weights
    assert furthest(found, whole) < 1e-6
    assert not torch.equal(whole["extra.weight"], Rarely().extra.weight)


@pytest.mark.parametrize("size", [2, 3])
def test_a_team_remembers_what_decays(size: int) -> None:
    recipe = Recipe(epochs=1, optimizer="sgd", weight_decay=0.5, momentum=0.9, strategy=Sync(workers=2, compress=Dgc(sparsity=0.01)))
    params = {name: torch.ones(4) for name in ("a", "b", "c")}
    saved = []
    for grads in ([torch.ones(4), None, None], [None, torch.ones(4), None]):
        member = SmallGradients(recipe, params, 2)
        member.encode(list(grads), 9.0)
        saved.append({name: tensor.clone() for name, tensor in member.residual().items()})
    members = [SmallGradients(recipe, params, size) for _ in range(size)]
    for rank, member in enumerate(members):
        member.load(saved, rank)
    kept = [member.residual()["had"].tolist() for member in members]
    assert kept == ([[1, 0, 0], [0, 1, 0]] if size == 2 else [[1, 1, 0]] * 3)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "lars", "lamb"])
def test_a_row_is_stepped_as_its_tensors_would_be_and_goes_on_after_a_restart(optimizer: Any) -> None:
    shapes = {"a": (3, 2), "b": (4,), "c": (2, 2)}
    layout, more = Layout.of(shapes), {"momentum": 0.9} if optimizer == "sgd" else {}
    recipe = Recipe(epochs=1, optimizer=optimizer, lr=0.1, weight_decay=0.1, **more)  # type: ignore[arg-type]
    torch.manual_seed(0)
    row = torch.randn(layout.numel)
    whole, apart = row.clone(), row.clone()
    one, other = OptimizerStep(recipe, whole, layout, clip=None), OptimizerStep(recipe, apart, layout, clip=None, by_tensor=True)
    for idle in ((), (), {1}, {0, 1}, (), {0, 1, 2}):
        gradient = torch.randn(layout.numel)
        for i in idle:
            layout.parts[i].of(gradient).zero_()
        before, state = whole.clone(), {name: tensor.clone() for name, tensor in one.state().items()}
        one.step(whole, gradient.clone(), 0.1, 1.0, idle)
        other.step_of([None if i in idle else part.of(gradient) for i, part in enumerate(layout.parts)], 0.1)
        assert torch.allclose(whole, apart, atol=1e-6)  # kernels round the last few numbers of a tensor otherwise
        assert all(torch.equal(layout.parts[i].of(whole), layout.parts[i].of(before)) for i in idle)
        again = OptimizerStep(recipe, before, layout, clip=None)
        again.load(state)
        again.step(before, gradient.clone(), 0.1, 1.0, idle)
        assert torch.equal(before, whole)


def test_what_was_kept_back_of_a_tensor_comes_also_when_nobody_has_a_gradient_of_it() -> None:
    layout = Layout.of({"a": (2,), "b": (2,)})
    row = torch.ones(4)
    step = OptimizerStep(Recipe(epochs=1, optimizer="sgd", lr=1.0), row, layout, clip=None)
    step.step(row, torch.tensor([0.0, 0.0, 0.5, 0.0]), 1.0, 1.0, {0, 1})
    assert row.tolist() == [1.0, 1.0, 0.5, 1.0]
