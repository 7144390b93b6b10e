"""Whatever is split, and however: losses, weights and statistics are those of one process."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from laminar.parallel.split.dims import part_of
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.line import Line
from laminar.parallel.split.module import split_model
from laminar.parallel.split.place import Placed
from laminar.parallel.split.prepare import placed_model
from laminar.parallel.split.rules import Rules
from laminar.parallel.split.traffic import traffic
from laminar.testing.thread_lines import on_every_worker
from tests.thinned import thinned
from tests.torch.parallel.split_models import Block, Chunked, Cnn, Permuted, Signal, Tied, Wide, Words, images, mlp, signals, words

STEPS, RATE = 20, 0.05
TWO: dict[str, int] = {"cols": 2}
FOUR: dict[str, int] = {"cols": 4}
SQUARE: dict[str, int] = {"rows": 2, "cols": 2}
Made = tuple[nn.Module, Tensor]


def trained_alone(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= RATE * p.grad
                    p.grad = None
    return losses


def trained_together(model: nn.Module, x: Tensor, y: Tensor, rules: Rules) -> tuple[list[float], list[nn.Module]]:
    """Losses, and the model that each worker puts together again at the end."""
    grid = Grid(rules.mesh)
    training, judging = placed_model(model, (model, [x[:2]]), (model, [x[:2]]), rules)
    sent = json.dumps([training.to_json(), judging.to_json()])  # as workers get it
    axis = rules.split.get("batch")

    def work(rank: int, lines: dict[str, Line]) -> tuple[list[float], nn.Module]:
        here = Here(grid.mesh, grid.at(rank), lines)
        own = copy.deepcopy(model)
        module, parts, partial = split_model(own, *map(Placed.from_json, json.loads(sent)), here)
        module.rows = len(x)
        mine = part_of(len(x), here.at[axis], grid.mesh[axis]) if axis else range(len(x))
        losses = []
        counted = traffic(training, here.at, len(x), lambda name: name in dict(own.named_parameters())).step
        for _ in range(STEPS):
            before = sum(line.sent for line in lines.values())
            out = module(x[mine.start : mine.stop])
            loss = F.cross_entropy(out, y[mine.start : mine.stop]) * (len(mine) / len(x))
            loss.backward()
            told = loss.detach() if axis is None else lines[axis].sum(loss.detach())
            losses.append(float(told))
            with torch.no_grad():
                for name, p in own.named_parameters():
                    if p.grad is not None:
                        for one in partial.get(name, ()):
                            p.grad = lines[one].sum(p.grad)
                        p -= RATE * p.grad
                        p.grad = None
            assert sum(line.sent for line in lines.values()) - before - (0 if axis is None else told.nbytes) == counted
        for name, tensor in [*own.named_parameters(), *own.named_buffers()]:
            tensor.data = parts.whole(name, tensor.data)
        return losses, own

    found = on_every_worker(grid, work)
    return found[0][0], [model for _, model in found]


def check(made: Made, mesh: dict[str, int], split: dict[str, str], modules: dict[str, Any] | None = None) -> None:
    model, x = made
    y = torch.randint(0, 10, (len(x),))
    alone = copy.deepcopy(model)
    losses, models = trained_together(model, x, y, Rules(mesh, split, modules or {}))
    assert losses == pytest.approx(trained_alone(alone, x, y), abs=1e-5)
    for one in models:
        for (name, mine), theirs in zip(one.state_dict().items(), alone.state_dict().values(), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4, msg=lambda said, name=name: f"{name}: {said}")  # type: ignore[misc]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("mesh", "split"),
    [
        (TWO, {"hidden": "cols"}),
        (FOUR, {"hidden": "cols"}),
        (TWO, {"batch": "cols"}),
        (FOUR, {"batch": "cols"}),
        (TWO, {"height": "cols"}),
        (SQUARE, {"batch": "rows", "hidden": "cols"}),
        (SQUARE, {"height": "rows", "hidden": "cols"}),
        (SQUARE, {"height": "rows", "width": "cols"}),
        ({"a": 2, "b": 1, "c": 2}, {"batch": "a", "width": "b", "hidden": "c"}),
    ],
)
def test_mlp(mesh: dict[str, int], split: dict[str, str]) -> None:
    check((mlp(), images()), mesh, split)


@pytest.mark.parametrize(
    ("mesh", "split", "modules"),
    thinned(
        [
            (SQUARE, {"batch": "rows", "channels": "cols"}, {"features.0": {"batch": "rows", "height": "cols"}, "head": {"batch": "rows"}}),
            (SQUARE, {"height": "rows", "width": "cols"}, None),
            (SQUARE, {"channels": "rows", "width": "cols"}, None),
            ({"cols": 3}, {"width": "cols"}, None),
            (FOUR, {"channels": "cols"}, None),
            (TWO, {"channels": "cols"}, None),
            (TWO, {"height": "cols"}, None),
            (TWO, {"width": "cols"}, None),
            (FOUR, {"height": "cols"}, None),
            (SQUARE, {"batch": "rows", "height": "cols"}, None),
            (SQUARE, {"batch": "rows", "channels": "cols", "hidden": "cols"}, None),
            (SQUARE, {"batch": "rows", "channels": "cols"}, {"features.0": {"height": "cols"}, "head": {}}),
        ],
        keep=5,
    ),
)
def test_cnn(mesh: dict[str, int], split: dict[str, str], modules: dict[str, Any] | None) -> None:
    check((Cnn(), images()), mesh, split, modules)


BLOCKS = (Block, Permuted, Chunked)
LINES = (
    (TWO, {"hidden": "cols"}),
    (FOUR, {"hidden": "cols"}),
    (TWO, {"heads": "cols"}),
    (TWO, {"length": "cols"}),
    (TWO, {"vocab": "cols"}),
    (SQUARE, {"batch": "rows", "hidden": "cols"}),
    (SQUARE, {"length": "rows", "hidden": "cols"}),
    (SQUARE, {"vocab": "rows", "hidden": "cols"}),
)


@pytest.mark.parametrize(
    ("mesh", "split", "block"),
    thinned([(*one, BLOCKS[(i + turn) % len(BLOCKS)]) for turn in range(len(BLOCKS)) for i, one in enumerate(LINES)], keep=len(LINES)),
)
def test_transformer(block: Callable[[], nn.Module], mesh: dict[str, int], split: dict[str, str]) -> None:
    check((Words(block()), words()), mesh, split)


@pytest.mark.parametrize(
    ("mesh", "split"),
    thinned(
        [
            (SQUARE, {"height": "rows", "width": "cols"}),
            (SQUARE, {"batch": "rows", "channels": "cols"}),
            (TWO, {"channels": "cols"}),
            (FOUR, {"height": "cols"}),
        ],
        keep=2,
    ),
)
def test_wide_net(mesh: dict[str, int], split: dict[str, str]) -> None:
    check((Wide(), images()), mesh, split)


@pytest.mark.parametrize(
    ("mesh", "split"), [(TWO, {"channels": "cols"}), (TWO, {"length": "cols"}), (SQUARE, {"channels": "rows", "length": "cols"})]
)
def test_signals(mesh: dict[str, int], split: dict[str, str]) -> None:
    check((Signal(), signals()), mesh, split)


@pytest.mark.parametrize("split", [{"vocab": "cols"}, {"hidden": "cols"}, {"batch": "cols"}])
def test_one_weight_in_two_places(split: dict[str, str]) -> None:
    check((Tied(), words()), TWO, split)


class Counting(nn.Module):
    """The number of rows as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(784, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.inner(x.flatten(1)) * 4 / x.shape[0]))
        return out


@pytest.mark.parametrize("split", [{"batch": "cols"}, {"hidden": "cols"}])
def test_the_number_of_rows_as_a_number(split: dict[str, str]) -> None:
    check((Counting(), images()), TWO, split)


def test_rows_that_cannot_be_shared_evenly() -> None:
    check((Cnn(), images(7)), {"rows": 3}, {"batch": "rows"})
