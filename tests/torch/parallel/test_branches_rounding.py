"""How far branches may be from one process: by rounding, and no further than one process is from itself.

Adam divides a gradient by its own size. Where that is zero but for rounding, as of a bias before a batch normalisation, it makes steps of
the whole rate out of nothing but rounding, and in a few steps all weights have felt it. One process that gets the rows of its batches in
another order does the same to itself.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from laminar.parallel.split.grid import Grid
from laminar.parallel.split.line import Line
from laminar.parallel.stages.member import make_team
from laminar.parallel.stages.posts import routes
from laminar.parallel.stages.prepare import Prepared, prepare
from laminar.testing.thread_lines import ThreadPost, on_every_worker
from laminar.train.splitting import Branches
from laminar.train.tensor_file import Later
from tests.torch.parallel.split_models import Wide, images
from tests.torch.parallel.test_stages_exact import Joined, Losses, _all_alike, a_job

STEPS, ROWS, RATE = 20, 12, 0.05
Trained = tuple[list[float], dict[str, Tensor]]


class Normed(Wide):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(8, 8, 1, bias=bias), nn.BatchNorm2d(8), nn.ReLU())  # type: ignore[assignment]
        self.three = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=bias), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1))


def alone(model: nn.Module, x: Tensor, y: Tensor, optimizer: str) -> Trained:
    model = copy.deepcopy(model)
    kinds: dict[str, Any] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    steps = kinds[optimizer](model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
        steps.step()
        steps.zero_grad()
    return losses, {name: p.detach() for name, p in model.named_parameters()}


def in_lanes(model: nn.Module, x: Tensor, y: Tensor, optimizer: str, folder: Path) -> Trained:
    how = Branches(lanes=2)
    options = {"strategy": how, "optimizer": optimizer, "lr": RATE, "momentum": 0.0 if optimizer == "sgd" else None}
    prepared = prepare(a_job(model, x, y, folder, **options), how)
    sent, grid = json.loads(json.dumps(prepared.to_json())), Grid(how.grid)
    posts = [ThreadPost() for _ in routes(prepared, grid)]

    def work(rank: int, lines: dict[str, Line]) -> Trained:
        job = a_job(copy.deepcopy(model), x, y, folder, **options)
        team = make_team(job, how, grid, Prepared.from_json(sent), Joined(lines, posts), rank)
        steps = team.optimizer(job.recipe, dict(job.model.named_parameters()))
        losses = []
        for _ in range(STEPS):
            team.expect(len(x))
            _, loss = team.learn(Losses(), [x], y, 1.0)
            losses.append(steps.step(RATE, loss=loss).loss)
            steps.zero_grad()
        whole = {}
        for name, p in job.model.named_parameters():
            given = team.whole(name, p.detach())
            whole[name] = (given.get() if isinstance(given, Later) else given).clone()
        return losses, whole

    return on_every_worker(grid, work)[0]


def in_another_order(model: nn.Module, x: Tensor, y: Tensor, optimizer: str) -> list[Trained]:
    """The same in one process, whose sums over rows are rounded otherwise: nothing depends on the order of rows within a batch."""
    orders = [torch.randperm(ROWS) for _ in range(3)]
    return [alone(model, x[order], y[order], optimizer) for order in orders]


def losses_apart(one: Trained, other: Trained) -> float:
    return max(abs(a - b) for a, b in zip(one[0], other[0], strict=True))


def weights_apart(one: Trained, other: Trained) -> dict[str, float]:
    return {name: float((weight - other[1][name]).abs().max()) for name, weight in one[1].items()}


@pytest.fixture(autouse=True)
def _alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.parallel.stages.prepare.measure", _all_alike)  # or who has which branch would depend on measured time
    torch.manual_seed(0)


def made(*, bias: bool) -> tuple[nn.Module, Tensor, Tensor]:
    return Normed(bias=bias), images(ROWS), torch.randint(0, 10, (ROWS,))


@pytest.mark.parametrize("bias", [False, True])
def test_gradient_descent_keeps_rounding_as_small_as_it_is(tmp_path: Path, bias: bool) -> None:
    given = made(bias=bias)
    one, lanes = alone(*given, "sgd"), in_lanes(*given, "sgd", tmp_path)
    assert losses_apart(one, lanes) < 1e-5 and max(weights_apart(one, lanes).values()) < 1e-5


def test_adam_makes_steps_of_rounding_in_one_process_as_in_branches(tmp_path: Path) -> None:
    given = made(bias=True)
    one, lanes, others = alone(*given, "adam"), in_lanes(*given, "adam", tmp_path), in_another_order(*given, "adam")
    for name in ("one.0.bias", "three.0.bias"):
        for other in (lanes, *others):
            assert weights_apart(one, other)[name] > RATE / 10, "a gradient of nothing but rounding is a step of the whole rate"
    assert one[0][:3] == pytest.approx(lanes[0][:3], abs=1e-5), "nothing depends on them at first"
    assert losses_apart(one, lanes) <= 10 * max(losses_apart(one, other) for other in others)
