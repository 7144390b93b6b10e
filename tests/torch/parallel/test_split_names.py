"""Which dimensions a module has, and what is said of rules about others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.split.named import inside, names_of, paths_of, refuse_unknown
from laminar.parallel.split.place import Placed
from laminar.parallel.split.prepare import placed_model
from laminar.parallel.split.rules import Rules
from tests.torch.parallel.split_models import Block, Cnn, Signal, Words, images, signals, words


def placed(model: nn.Module, x: Tensor, rules: Rules | None = None) -> Placed:
    return placed_model(model, (model, [x[:2]]), (model, [x[:2]]), rules or Rules({}))[0]


class Kinds(nn.Module):
    """One of each, where the sizes tell the dimensions apart."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.pool = nn.MaxPool2d(2)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.wide = nn.Linear(6, 12)
        self.normed = nn.LayerNorm(12)
        self.head = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        found = self.mean(self.pool(self.norm(self.conv(x)))).flatten(1)
        out: Tensor = self.head(self.normed(self.wide(found)))
        return out


IMAGE = {"batch", "channels", "height", "width"}


@pytest.mark.parametrize(
    ("make", "x", "path", "has"),
    [
        (Kinds, images, "conv", IMAGE),
        pytest.param(Kinds, images, "norm", IMAGE, marks=pytest.mark.slow),
        (Kinds, images, "pool", IMAGE),
        (Kinds, images, "wide", {"batch", "channels", "hidden"}),
        pytest.param(Kinds, images, "normed", {"batch", "hidden"}, marks=pytest.mark.slow),
        (Kinds, images, "head", {"batch", "hidden", "classes"}),
        (Cnn, images, "features", IMAGE),
        (Signal, signals, "", {"batch", "channels", "length", "classes"}),
        (lambda: Words(Block()), words, "", {"batch", "length", "hidden", "heads", "vocab", "classes"}),
    ],
)
def test_dimensions_of_modules(make: Any, x: Any, path: str, has: set[str]) -> None:
    assert set(inside(names_of(placed(make(), x())), path)) >= has
    if path:
        assert set(inside(names_of(placed(make(), x())), path)) == has


@pytest.mark.parametrize(
    ("mesh", "modules", "said"),
    [
        ({"cols": 2}, {"head": {"height": "cols"}}, ["'head' has no dimension 'height'", "classes: 10; hidden: 12", 'classes = "cols"']),
        ({"cols": 4}, {"head": {"height": "cols"}}, ["'head' has no dimension 'height'", '"head" = { batch = "cols" }']),
        ({"a": 2, "b": 2}, {"head": {"batch": "a", "width": "b"}}, ['"head" = { batch = "a", classes = "b" }']),
        ({"cols": 2}, {"conv": {"hidden": "cols"}}, ["'conv' has no dimension 'hidden'", 'channels = "cols"']),
        ({"cols": 2}, {"unused": {"batch": "cols"}}, ["'unused' runs no operator", '"unused" = { }']),
        ({"cols": 2}, {"hed": {}}, ["no such module", "did you mean 'head'"]),
    ],
)
def test_a_rule_for_what_a_module_has_not(mesh: dict[str, int], modules: dict[str, Any], said: list[str]) -> None:
    model, rules = Kinds(), Rules(mesh, {}, modules)
    model.unused = nn.Identity()
    found = placed(model, images(), rules)
    with pytest.raises(LaminarError) as caught:
        refuse_unknown(rules, names_of(found), paths_of(model), found)
    told = f"{caught.value} {caught.value.hint}"
    assert caught.value.code == "L012" and all(words in told for words in said), told


def test_a_module_of_two_names_has_operators_under_each() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(8, 8)
            self.row = nn.Sequential(self.one, nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.row(self.one(x))
            return out

    model, rules = Twice(), Rules({"cols": 2}, {}, {"row.0": {"hidden": "cols"}})
    found = placed(model, torch.randn(2, 8), rules)
    refuse_unknown(rules, names_of(found), paths_of(model), found)
