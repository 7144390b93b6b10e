"""Gradients made small, as plans see them: what the executor hands over, message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from laminar.parallel.sync.group_team import GroupOptimizer
from laminar.parallel.sync.sent_bytes import of_step
from laminar.plan.price_sync import packet_exchanges
from laminar.train.compression import Kind, compression
from laminar.train.recipe import Recipe
from laminar.train.snapshot import trainable
from laminar.train.strategies import Sync
from tests.torch.plan.profile_jobs import made, profile


class Alone:
    """A group of two in which the other one says the same, and what went over it."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def from_first(self, tensor: Tensor) -> None: ...

    def add_up(self, tensor: Tensor) -> None:
        self.made.append(("sum", tensor.nbytes))
        tensor.mul_(2)
        if tensor.dtype == torch.float64:  # sizes of packets: of each its own
            tensor[2:4] /= 2
            tensor[3] = tensor[2]

    def all_gather(self, own: Tensor) -> list[Tensor]:
        self.made.append(("gather", own.nbytes))
        return [own, own]


@pytest.mark.parametrize("small", ["fp16", "int8", "topk", "dgc", "powersgd"])
def test_a_plan_has_the_exchanges_that_the_executor_makes(tmp_path: Path, small: Kind) -> None:
    job = made("mlp", tmp_path)
    params = trainable(job.model)
    recipe = Recipe(epochs=100, optimizer="sgd", strategy=Sync(workers=2, link="gloo", compress=small))
    group: Any = Alone()
    optimizer = GroupOptimizer(recipe, params, group)
    for parameter in params.values():
        parameter.grad = torch.randn_like(parameter) * 1e-3
    sent = optimizer.step(0.1, epoch=90.0).sent
    packing = profile(job).packing(compression(small))
    priced = [(one.kind, one.bytes) for one in packet_exchanges(packing, 2, len(params))]
    assert [kind for kind, _ in priced] == [kind for kind, _ in group.made]
    for (_, predicted), (_, real) in zip(priced, group.made, strict=True):
        assert predicted == pytest.approx(real, rel=0.1)  # sparse ones choose by a threshold
    packet = 0 if packing.sums else packing.bytes
    assert of_step(2, told=2 + 2 + len(params), sums=packing.sums, packet=packet) == pytest.approx(sent, rel=0.1)
    assert packing.encode > 0 and (packing.decode > 0) == (small != "powersgd")


def test_packing_is_measured_once(tmp_path: Path) -> None:
    job = made("mlp", tmp_path)
    job.recipe = msgspec.structs.replace(job.recipe, optimizer="adam")  # a grid packs distances whatever the optimizer is
    found = profile(job)
    first = found.packing(compression("dgc"))
    assert found.packing(compression("dgc")) == first and found.meter.measured == 1
    dense = found.packing(compression("none"))
    assert dense.bytes == sum(one.nbytes for one in trainable(job.model).values()) and found.meter.measured == 1
