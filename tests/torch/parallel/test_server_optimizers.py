"""Optimizers of a parameter server: torch's own on the same vectors, and cut into shards as in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.server_optimizers import ServerOptimizer
from laminar.train.recipe import Recipe

Peer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

PAIRS: list[tuple[dict[str, Any], Peer]] = [
    ({"optimizer": "adagrad", "lr": 0.1}, lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True)),
    ({"optimizer": "sgd", "lr": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1, fused=True)),
    ({"optimizer": "sgd", "lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True)),
    ({"optimizer": "adam", "lr": 0.01}, lambda p: torch.optim.Adam(p, lr=0.01, fused=True)),
]
IDS = ["adagrad", "sgd", "momentum", "adam"]


def made(fields: dict[str, Any], like: Tensor) -> ServerOptimizer:
    return ServerOptimizer(Recipe(epochs=1, **fields), like)


def gradients(count: int = 5, size: int = 301) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=generator) for _ in range(count)]


@pytest.mark.parametrize(("fields", "peer"), PAIRS, ids=IDS)
def test_a_shard_has_the_bits_of_torch_optim(fields: dict[str, Any], peer: Peer) -> None:
    flat = torch.linspace(-1, 1, 301)
    parameter = nn.Parameter(flat.clone())
    ours, theirs = made(fields, flat), peer([parameter])
    for gradient in gradients():
        ours.step(flat, gradient, fields["lr"])
        parameter.grad = gradient.clone()
        theirs.step()
    assert torch.equal(flat, parameter)


@pytest.mark.parametrize("fields", [fields for fields, _ in PAIRS], ids=IDS)
def test_shards_together_are_the_whole(fields: dict[str, Any]) -> None:
    whole, cut = torch.linspace(-1, 1, 301), torch.linspace(-1, 1, 301)
    one = made(fields, whole)
    parts = [slice(0, 100), slice(100, 101), slice(101, 301)]
    several = [made(fields, cut[part]) for part in parts]
    for gradient in gradients():
        one.step(whole, gradient, fields["lr"])
        for part, optimizer in zip(parts, several, strict=True):
            optimizer.step(cut[part], gradient[part], fields["lr"])
    assert torch.allclose(whole, cut, atol=1e-6)


def test_adagrad_is_downpours() -> None:
    """Each number by gamma over the root of the sum of its squares (Dean et al. 2012)."""
    flat, wanted = torch.ones(301), torch.ones(301)
    ours, squares = made({"optimizer": "adagrad"}, flat), torch.zeros(301)
    for gradient in gradients():
        ours.step(flat, gradient, 0.5)
        squares += gradient**2
        wanted -= 0.5 / squares.sqrt() * gradient
    assert torch.allclose(flat, wanted, atol=1e-5)


@pytest.mark.parametrize("fields", [fields for fields, _ in PAIRS], ids=IDS)
def test_a_restarted_shard_goes_on_with_the_same_bits(fields: dict[str, Any]) -> None:
    flat = torch.linspace(-1, 1, 301)
    first = made(fields, flat)
    *early, late = gradients()
    for gradient in early:
        first.step(flat, gradient, 0.1)
    again, second = flat.clone(), made(fields, flat)
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    first.step(flat, late, 0.1)
    second.step(again, late, 0.1)
    assert torch.equal(flat, again)


def test_a_snapshot_of_another_kind_or_size_is_refused() -> None:
    adam = made({"optimizer": "adam"}, torch.zeros(5))
    for other in (made({"optimizer": "adagrad"}, torch.zeros(5)), made({"optimizer": "adam"}, torch.zeros(6))):
        with pytest.raises(LaminarError, match="snapshot") as caught:
            adam.load(other.state())
        assert caught.value.code == "L604"


def test_what_needs_whole_tensors_is_refused() -> None:
    with pytest.raises(ValueError, match='optimizer is "lamb"'):
        made({"optimizer": "lamb"}, torch.zeros(5))
