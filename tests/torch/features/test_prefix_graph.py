"""The cut of an exported graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_models import Cnn, InPlace, Noisy, Residual, TwoBranches, frozen_model
from torch import Tensor, nn

from laminar.model.prefix import NoPrefix, Prefix, find_prefix

X = torch.rand(5, 1, 8, 8)


def cut(kind: Any, paths: list[str], *args: Any) -> tuple[nn.Module, Any, Prefix]:
    model, frozen = frozen_model(kind, paths, *args)
    found = find_prefix(model, X[:3], frozen)
    assert isinstance(found, Prefix), found
    assert found.how == "graph", found.note
    return model, frozen, found


def refusal(model: nn.Module, frozen: Any) -> str:
    found = find_prefix(model, X[:3], frozen)
    assert isinstance(found, NoPrefix)
    return found.reason


@pytest.mark.parametrize(
    ("kind", "paths"),
    [(Cnn, ["features"]), (Residual, ["body"]), (TwoBranches, ["a", "b"]), (InPlace, ["conv"])],
)
def test_the_parts_are_the_model_in_both_forms_with_gradients_and_statistics(kind: Any, paths: list[str]) -> None:
    model, frozen, prefix = cut(kind, paths)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    outcomes = []
    for by_parts in (False, True):
        model.load_state_dict(start)
        model.train()
        frozen.keep()
        model.zero_grad()
        torch.manual_seed(7)
        output = prefix.fit.suffix(*prefix.fit.features(X)) if by_parts else model(X)
        output.square().sum().backward()
        grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        model.eval()
        with torch.no_grad():
            tested = prefix.test.suffix(*prefix.test.features(X)) if by_parts else model(X)
        outcomes.append((output.detach(), grads, tested, {k: v.clone() for k, v in model.state_dict().items()}))
    (out, grads, tested, state), (out2, grads2, tested2, state2) = outcomes
    torch.testing.assert_close(out2, out, rtol=0, atol=1e-6)
    torch.testing.assert_close(tested2, tested, rtol=0, atol=1e-6)
    torch.testing.assert_close(grads2, grads, rtol=0, atol=1e-5)
    torch.testing.assert_close(state2, state, rtol=0, atol=1e-6)


def test_pooling_and_flattening_after_the_frozen_modules_are_kept_and_idle_dropout_is_not_in_the_way() -> None:
    _, _, prefix = cut(Cnn, ["features"])
    assert prefix.fit.shapes == ((64,),)
    assert prefix.fit.graph == prefix.test.graph
    assert "flatten" in prefix.fit.modules


class DropFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def test_dropout_of_the_trained_part_does_not_make_two_prefixes_of_one() -> None:
    _, _, prefix = cut(DropFirst, ["body"])
    assert prefix.fit.graph == prefix.test.graph


def test_the_suffix_shares_parameters_and_buffers_with_the_model() -> None:
    model, _, prefix = cut(Cnn, ["features"])
    own = {id(t) for t in (*model.parameters(), *model.buffers())}
    assert {id(t) for t in (*prefix.fit.suffix.parameters(), *prefix.fit.suffix.buffers())} <= own
    assert {n for n, p in prefix.fit.suffix.named_parameters() if p.requires_grad} == {
        n for n, p in model.named_parameters() if p.requires_grad
    }


def test_the_sample_itself_is_passed_on_and_not_kept() -> None:
    _, _, prefix = cut(Residual, ["body"])
    assert prefix.fit.input_at is not None
    assert [prefix.fit.shapes[i] for i in prefix.fit.kept] == [(4,)]


def test_two_values_at_different_depths_are_both_kept() -> None:
    _, _, prefix = cut(TwoBranches, ["a", "b"])
    # the pointwise tanh and the flattened copies are not kept beside what they are made of
    assert sorted(torch.Size(s).numel() for s in prefix.fit.shapes) == [4, 18]


class Upsampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(1, 1, 8)
        self.head = nn.Conv2d(1, 3, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.interpolate(self.body(x), size=(8, 8))).flatten(1)


def test_what_only_blows_up_the_features_is_computed_again() -> None:
    _, _, prefix = cut(Upsampled, ["body"])
    assert prefix.fit.shapes == ((1, 1, 1),)


class Transformer(nn.Module):
    """Frozen attention that works on (sequence, batch, width): its inner values are not one row per sample."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        sequence = self.body(x.squeeze(1).transpose(0, 1))
        return self.head(sequence.mean(0))


def test_values_that_are_not_one_row_per_sample_stay_inside() -> None:
    _, _, prefix = cut(Transformer, ["body"])
    assert prefix.fit.shapes == ((8,),)


def test_an_unfrozen_bottom_leaves_nothing() -> None:
    model, frozen = frozen_model(Cnn, ["head"])
    assert "'features.0' (Conv2d)" in refusal(model, frozen)
    assert "features.0.weight is trained" in refusal(model, frozen)


def test_noise_before_the_first_frozen_tensor_leaves_nothing_and_is_named() -> None:
    model, frozen = frozen_model(Noisy, ["body"], True)
    reason = refusal(model, frozen)
    assert "'body.0' (Noise)" in reason
    assert "random" in reason


def test_noise_in_the_middle_ends_the_prefix() -> None:
    _, _, prefix = cut(Noisy, ["body"], False)
    assert prefix.fit.modules == ("body.0", "body.1")
    x = torch.rand(4, 1, 8, 8)
    assert torch.equal(prefix.fit.features(x)[0], prefix.fit.features(x)[0])
    assert not torch.equal(prefix.fit.suffix(*prefix.fit.features(x)), prefix.fit.suffix(*prefix.fit.features(x)))


class OwnStatistics(nn.Module):
    """A BatchNorm without parameters of its own, not frozen: there is nothing to train in it, yet it is live."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1, affine=False)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.norm(x)))


def test_batch_statistics_are_live_without_any_parameter() -> None:
    model, frozen = frozen_model(OwnStatistics, ["body"])
    assert "'norm' (BatchNorm2d)" in refusal(model, frozen)


def test_nothing_frozen_and_everything_frozen() -> None:
    model = Cnn()
    assert refusal(model, None) == "nothing is frozen"
    model, frozen = frozen_model(Cnn, ["features", "flatten", "head"])
    assert refusal(model, frozen) == "everything is frozen"


def test_looking_leaves_modes_buffers_and_random_state_alone() -> None:
    model, frozen = frozen_model(Cnn, ["features"])
    model.train()
    frozen.keep()
    modes = [m.training for m in model.modules()]
    state = {k: v.clone() for k, v in model.state_dict().items()}
    before = torch.get_rng_state()
    find_prefix(model, X[:3], frozen)
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)


class Shared(nn.Module):
    """Prefix values that a trained module overwrites through a view, while another reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 4)
        self.bias = nn.Parameter(torch.ones(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        value = self.body(x.flatten(1))
        before = value * 1.0
        alias = value.view(-1, 2, 2)
        alias.view(-1, 4).add_(self.bias)
        return self.head(value) + self.head(before) + alias.sum((1, 2)).unsqueeze(1)


class Sliced(Shared):
    """As Shared, through a slice that would be a smaller feature of its own."""

    def forward(self, x: Tensor) -> Tensor:
        value = self.body(x.flatten(1))
        part = value[:, :2]
        part.add_(self.bias[:2])
        return self.head(value)


@pytest.mark.parametrize("kind", [Shared, Sliced])
def test_writes_through_a_view_are_seen_by_every_name_of_the_storage(kind: Any) -> None:
    model, frozen, prefix = cut(kind, ["body"])
    model.train()
    frozen.keep()
    features = prefix.fit.features(X)
    copies = [f.clone() for f in features]
    torch.testing.assert_close(prefix.fit.suffix(*features), model(X), rtol=0, atol=1e-6)
    for feature, copy in zip(features, copies, strict=True):
        assert torch.equal(feature, copy)  # a kept row is never written into
