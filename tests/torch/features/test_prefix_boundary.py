"""The cut at module boundaries, for models that torch.export refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from feature_models import Branching, frozen_model
from torch import Tensor, nn

from laminar.model.prefix import NoPrefix, Prefix, find_prefix

X = torch.rand(5, 1, 8, 8)
FROZEN = ["stem", "norm", "pool"]


def cut(kind: Any, paths: list[str]) -> tuple[nn.Module, Any, Prefix | NoPrefix]:
    model, frozen = frozen_model(kind, paths)
    return model, frozen, find_prefix(model, X[:3], frozen)


def test_the_chain_runs_through_stateless_modules_and_ends_before_dropout() -> None:
    _, _, found = cut(Branching, FROZEN)
    assert isinstance(found, Prefix)
    assert found.how == "modules"
    assert "torch.export refused" in found.note
    assert found.fit.modules == ("stem", "norm", "act", "pool")
    assert found.fit.shapes == ((1, 8, 8), (16,))
    assert found.fit.kept == (1,)


@pytest.mark.parametrize("training", [True, False])
def test_the_stubbed_model_is_the_model(training: bool) -> None:
    model, frozen, found = cut(Branching, FROZEN)
    assert isinstance(found, Prefix)
    form = found.fit if training else found.test
    model.train(training)
    frozen.keep()
    torch.manual_seed(1)
    plain = model(X)
    torch.manual_seed(1)
    torch.testing.assert_close(form.suffix(*form.features(X)), plain, rtol=0, atol=1e-6)
    torch.manual_seed(1)
    assert torch.equal(model(X), plain)  # the stubs are gone again


def test_the_frozen_part_is_not_computed_again() -> None:
    model, _, found = cut(Branching, FROZEN)
    assert isinstance(found, Prefix)
    features = [f.detach() for f in found.fit.features(X)]
    calls: list[Any] = []
    model.get_submodule("pool.0").register_forward_hook(lambda *_: calls.append(1))
    found.fit.suffix(*features)
    assert calls == []


def test_a_frozen_middle_gives_nothing() -> None:
    _, _, found = cut(Branching, ["norm"])
    assert isinstance(found, NoPrefix)
    assert "no frozen module is fed by the model's input" in found.reason


class Peeking(Branching):
    """Uses the output of the first frozen module twice, where no hook sees it."""

    def forward(self, x: Tensor) -> Tensor:
        first = self.stem(x)
        value = self.pool(self.act(self.norm(first)))
        if float(value.detach().sum()) > 1e9:
            value = value * 0.5
        return self.head(value) + first.mean((1, 2, 3)).unsqueeze(1)


def test_a_chain_that_is_used_in_between_is_shortened_until_it_agrees() -> None:
    model, frozen, found = cut(Peeking, FROZEN)
    assert isinstance(found, Prefix)
    assert found.fit.modules == ("stem",)
    model.train()
    frozen.keep()
    torch.testing.assert_close(found.fit.suffix(*found.fit.features(X)), model(X), rtol=0, atol=1e-6)


class Twice(Branching):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.head(self.pool(self.act(self.norm(self.stem(x * 2)))))


def test_modules_called_twice_are_left_alone() -> None:
    _, _, found = cut(Twice, FROZEN)
    assert isinstance(found, NoPrefix)
