"""Optimizers: the bits of torch.optim's own, and state that comes back by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe

Peer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

PAIRS: list[tuple[dict[str, Any], Peer]] = [
    ({"optimizer": "sgd", "lr": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1, fused=True)),
    ({"optimizer": "sgd", "lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True)),
    (
        {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, fused=True),
    ),
    ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p, fused=True)),
    (
        {"optimizer": "adam", "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1},
        lambda p: torch.optim.Adam(p, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1, fused=True),
    ),
    ({"optimizer": "adamw"}, lambda p: torch.optim.AdamW(p, fused=True)),
    ({"optimizer": "adagrad"}, lambda p: torch.optim.Adagrad(p, fused=True)),
]


def twins() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(3)
    one = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    other = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    other.load_state_dict(one.state_dict())
    return one, other


@pytest.mark.parametrize(("fields", "peer"), PAIRS)
def test_steps_have_the_bits_of_torch_optim(fields: dict[str, Any], peer: Peer) -> None:
    ours, theirs = twins()
    recipe = Recipe(epochs=1, **fields)
    optimizer, reference = Optimizer(recipe, dict(ours.named_parameters())), peer(theirs.parameters())
    for step in range(6):
        x = torch.randn(8, 5)
        for model in (ours, theirs):
            model(x).square().sum().backward()
            if step == 3:  # a parameter that this step did not reach is left alone, momentum and all
                model[0].bias.grad = None
        optimizer.step(recipe.rate)
        optimizer.zero_grad()
        reference.step()
        reference.zero_grad()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert a.grad is None


def test_the_rate_is_taken_at_each_step() -> None:
    ours, theirs = twins()
    optimizer = Optimizer(Recipe(epochs=1), dict(ours.named_parameters()))
    reference = torch.optim.Adam(theirs.parameters(), fused=True)
    for lr in (0.1, 0.01, 0.5):
        for model in (ours, theirs):
            model(torch.ones(2, 5)).square().sum().backward()
        reference.param_groups[0]["lr"] = lr
        optimizer.step(lr)
        optimizer.zero_grad()
        reference.step()
        reference.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("fields", [*[fields for fields, _ in PAIRS], {"optimizer": "lars"}, {"optimizer": "lamb"}])
def test_state_goes_and_comes_by_name(fields: dict[str, Any]) -> None:
    one, other = twins()
    recipe = Recipe(epochs=1, **fields)

    def step(model: nn.Module, optimizer: Optimizer) -> None:
        model(torch.full((2, 5), 0.3)).square().sum().backward()
        optimizer.step(recipe.rate)
        optimizer.zero_grad()

    first = Optimizer(recipe, dict(one.named_parameters()))
    step(one, first)
    other.load_state_dict(one.state_dict())
    second = Optimizer(recipe, dict(other.named_parameters()))
    second.load({name: tensor.clone() for name, tensor in first.tensors().items()})
    step(one, first)
    step(other, second)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_no_gradient_at_all_changes_nothing() -> None:
    model, _ = twins()
    before = [p.clone() for p in model.parameters()]
    Optimizer(Recipe(epochs=1, weight_decay=0.5), dict(model.named_parameters())).step(0.1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_state_of_other_parameters_is_refused() -> None:
    model, _ = twins()
    adam = Optimizer(Recipe(epochs=1), dict(model.named_parameters()))
    sgd = Optimizer(Recipe(epochs=1, optimizer="sgd", momentum=0.9), dict(model.named_parameters()))
    with pytest.raises(LaminarError) as caught:
        adam.load(sgd.tensors())
    assert caught.value.code == "L604"
