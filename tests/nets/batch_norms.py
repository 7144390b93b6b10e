"""A team of sync with any model, any rows and any link learns what one process learns: statistics are those of the whole batch.

One seed is one model of a few modules, some of them norms of every kind, one training of a few steps by one process, and the same by a
team. What mixes rows in another way is refused, and what does not is not.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from laminar.parallel.sync.row_probe import row_facts
from laminar.train.compression import TopK
from tests.torch.parallel.batch_norm_teams import CLASSES, LINKS, alone, distance, job, together

NEAR = 3e-6  # of one process after each step
EPS = 0.01  # less would make of rounding what it likes, where a channel has few numbers and these are nearly alike
Put = Callable[[int], nn.Module]


class Mixes(nn.Module):
    """Looks at other rows."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.gate = how, nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1)
        match self.how:
            case "mean":
                rows = rows - rows.mean(0)
            case "gated":
                rows = rows + self.gate * rows.std(0)
            case "softmax":
                rows = rows.softmax(0)
            case "attention":
                rows = (rows @ rows.t()).softmax(1) @ rows
            case "shift":
                rows = rows + 0.1 * rows.roll(1, 0)
            case "count":
                rows = rows * (1 + 1 / len(rows))
        return rows.view_as(x)


class Functional(nn.Module):
    """A batch norm without a module."""

    def __init__(self, size: int, momentum: float) -> None:
        super().__init__()
        self.weight, self.momentum = nn.Parameter(torch.ones(size)), momentum
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.variance, self.weight, None, self.training, self.momentum, EPS)  # type: ignore[arg-type]


class Twice(nn.Module):
    """Uses one module twice."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(torch.sin(self.inner(x)))
        return out


def _norm(rng: random.Random, size: int, dims: int) -> nn.Module:
    settings: dict[str, Any] = {
        "momentum": rng.choice([0.1, 0.5, None]),
        "affine": rng.random() < 0.7,
        "track_running_stats": rng.random() < 0.7,
        "eps": EPS,
    }
    batch: Any = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dims - 1 if dims else 0]
    instance: Any = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dims - 1 if dims else 0]
    kinds: list[Put] = [
        lambda size: batch(size, **settings),
        lambda size: Twice(batch(size, **settings)),
        lambda size: Functional(size, 0.3),
        lambda size: nn.Sequential(batch(size, **settings), batch(size, eps=EPS)).eval(),
        lambda size: nn.GroupNorm(1, size, eps=EPS),
    ]
    if dims:
        kinds.append(lambda size: instance(size, affine=True, track_running_stats=rng.random() < 0.5, momentum=0.2, eps=EPS))
    return rng.choice(kinds)(size)


def _model(rng: random.Random, dims: int, side: int, mixes: str) -> nn.Module:
    convolution: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1 if dims else 0]
    made: list[nn.Module] = []
    size = 2
    for _ in range(rng.randint(1, 3)):
        wider = rng.randint(2, 5)
        made.append(convolution(size, wider, 3, padding=1) if dims else nn.Linear(size, wider))
        size = wider
        made += [_norm(rng, size, dims)] if rng.random() < 0.9 else []
        made.append(rng.choice([nn.Tanh, nn.Sigmoid, nn.SiLU])())
    if mixes:
        made.insert(rng.randint(1, len(made)), Mixes(mixes))
    return nn.Sequential(*made, nn.Flatten(), nn.Linear(size * side**dims, CLASSES))


def check(seed: int) -> str:
    rng = random.Random(seed)
    dims = rng.randint(0, 3)
    side = rng.randint(2, 4)
    mixes = rng.choice(["mean", "gated", "softmax", "attention", "shift", "count"]) if rng.random() < 0.25 else ""
    size = rng.randint(2, 4)
    batch = rng.randint(size, 4 * size)
    options: dict[str, Any] = {
        "shape": (2, *[side] * dims),
        "batch": batch,
        "samples": max(4, rng.randint(batch, 3 * batch + 3)),  # half as many are tested by: of one there are no statistics
        "accumulate": rng.choice([1, 1, 2]),
        "lr": 0.05,
        "optimizer": "sgd",
        "momentum": rng.choice([None, 0.9]),
    }
    how = rng.choice([{}, {}, {"shares": "measured"}, {"compress": TopK(sparsity=0.0, values="float32")}])
    plan = rng.getstate()

    def make() -> nn.Module:
        rng.setstate(plan)
        torch.manual_seed(seed)
        return _model(rng, dims, side, mixes)

    folder = Path(tempfile.mkdtemp(prefix="batch-norms-"))
    try:
        facts = row_facts(job(folder / "asked", make(), workers=size, how=how, **options))
        assert bool(facts.mixes) == bool(mixes), f"{mixes or 'nothing'} mixes rows, and it is said: {facts.mixes or 'nothing'}"
        if mixes:
            return "refused"
        one, told = alone(folder / "one", make, **options)
        link = LINKS[seed % 2]
        several, heard = together(link, folder / "several", make, size, facts=facts, how=how, **options)
        far = max(distance(one.model, made.model) for made in several)
        assert far < NEAR * told.steps, f"{far:g} from one process after {told.steps} steps"
        assert abs(heard.metrics["loss"] - told.metrics["loss"]) < 10 * NEAR * told.steps * (1 + told.metrics["loss"])
        return link
    finally:
        shutil.rmtree(folder, ignore_errors=True)
