"""Teams of threads that train one job by sync, with the statistics of whole batches; and the same job by one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laminar.data.dataset import Dataset, Split
from laminar.model.freeze import Frozen
from laminar.parallel.segment import Segment
from laminar.parallel.sync.group_team import GroupTeam
from laminar.parallel.sync.links import layout_of
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.row_probe import row_facts
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.train.job import Job, Trained
from laminar.train.loop import train
from laminar.train.recipe import Recipe
from laminar.train.strategies import Sync

LINKS = ["memory", "gloo"]
CLASSES = 3
Make = Callable[[], nn.Module]


def job(
    folder: Path,
    model: nn.Module,
    *,
    samples: int = 24,
    shape: tuple[int, ...] = (4,),
    how: dict[str, Any] | None = None,
    workers: int = 2,
    freeze: list[str] | None = None,
    **recipe: Any,
) -> Job:
    rng = np.random.default_rng(0)
    x = (3 + rng.normal(size=(samples, *shape))).astype(np.float32)
    y = (x.reshape(samples, -1)[:, 0] * 2).astype(np.int64) % CLASSES
    made = Recipe(**{"epochs": 1, "batch": 8, "lr": 0.1, "optimizer": "sgd", "strategy": Sync(workers=workers, **(how or {}))} | recipe)
    folder.mkdir(parents=True, exist_ok=True)
    data = Dataset(Split(x, y), Split(x[: samples // 2], y[: samples // 2]), ("a", "b", "c"))
    frozen = Frozen(model, freeze, freeze) if freeze else None
    if frozen is not None:
        frozen.keep()
    return Job("layer", model, data, made, frozen, folder, tensorboard=False)


def alone(folder: Path, make: Make, *, rearrange: int | None = None, **options: Any) -> tuple[Job, Trained]:
    """By one process; `rearrange`: with the rows of each batch in another order, drawn with this seed."""
    made = job(folder, make(), **options | {"workers": 1})
    if rearrange is not None:
        generator = torch.Generator().manual_seed(rearrange)
        plain = made.model.forward
        order: list[Tensor] = []

        def forward(x: Tensor) -> Tensor:
            if not made.model.training:
                return plain(x)
            order[:] = [torch.randperm(len(x), generator=generator)]
            out: Tensor = plain(x[order[0]])
            return out[torch.argsort(order[0])]

        made.model.forward = forward
    return made, train(made)


def together(
    link: str, folder: Path, make: Make, size: int = 2, *, facts: RowFacts | None = None, exact: bool = True, **options: Any
) -> tuple[list[Job], Trained]:
    """By threads, each with a model of its own."""
    jobs = [job(folder / str(rank), make(), workers=size, **options) for rank in range(size)]
    if exact and facts is None:
        facts = row_facts(jobs[0])
        assert not facts.mixes, facts.mixes
    segment, store = Segment.create(layout_of(jobs[0], size).total), serve_store("127.0.0.1", None)
    errors: list[BaseException] = []
    found: list[Trained] = []

    def one(rank: int) -> None:
        made = jobs[rank]
        try:
            if link == "memory":
                made.team = SharedTeam(segment, layout_of(made, size), rank, model=made.model, facts=facts)
                made.team.meeting.timeout = 30
            else:
                group = Group("127.0.0.1", store.port, rank, size, bind="127.0.0.1", timeout=30)
                made.team = GroupTeam(group, facts)
            trained = train(made)
            if not rank:
                found.append(trained)
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
    return jobs, found[0]


def distance(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of any two numbers, of tensors up to one in size, and relative above."""
    return max(float(((a - b).abs() / (1 + a.abs())).max()) for a, b in _pairs(one, other))


def apart(one: nn.Module, other: nn.Module) -> float:
    """The root of the mean squared difference of all numbers."""
    pairs = list(_pairs(one, other))
    return float(sum((a - b).square().sum() for a, b in pairs) / sum(a.numel() for a, _ in pairs)) ** 0.5


def _pairs(one: nn.Module, other: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    others = dict([*other.named_parameters(), *other.named_buffers()])
    for name, tensor in [*one.named_parameters(), *one.named_buffers()]:
        yield tensor.detach().double(), others[name].detach().double()
