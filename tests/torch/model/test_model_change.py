"""Freeze, replace, and whether a model fits its data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.model.build import make_model
from laminar.model.fit import check_output
from laminar.model.freeze import freeze
from laminar.model.paths import paths
from laminar.model.replace import replace


def convnet(**args: object) -> nn.Module:
    return make_model("laminar:convnet", {"channels": [4, 4], **args}, Path(), seed=0, inject={"classes": 5, "input_shape": (1, 8, 8)})


def step(model: nn.Module) -> None:
    x = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(x).square().sum().backward()
    optimizer.step()


def test_frozen_batchnorm_neither_learns_nor_collects_statistics_after_train() -> None:
    model = convnet()
    frozen = freeze(model, ["features"])
    before = frozen.digest()
    assert any("running_mean" in name for name in before)
    model.train()
    assert model.features.norm0.training  # type: ignore[union-attr]
    frozen.keep()
    head = model.head.weight.detach().clone()  # type: ignore[union-attr, operator]
    step(model)
    frozen.check()
    assert not model.features.norm0.training  # type: ignore[union-attr]
    assert model.training
    assert not torch.equal(head, model.head.weight)  # type: ignore[arg-type, union-attr]


def test_without_keep_the_buffers_change_and_check_names_one() -> None:
    model = convnet()
    frozen = freeze(model, ["features.norm0"])
    frozen.digest()
    model.train()
    step(model)
    with pytest.raises(LaminarError, match=r"features\.norm0\.\w+") as caught:
        frozen.check()
    assert caught.value.code == "L602"
    assert caught.value.exit_code == 6


def test_globs_freeze_every_module_that_fits() -> None:
    model = convnet()
    frozen = freeze(model, ["features.norm*", "head"])
    assert frozen.paths == ["features.norm0", "features.norm1", "head"]
    assert {n for n, p in model.named_parameters() if not p.requires_grad} == {n for n, _ in model.named_parameters() if "conv" not in n}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("feature", "did you mean 'features'"),
        ("features.9", "Its modules are: features, head"),
        ("head.weight", "a tensor of the module 'head'"),
        ("zzz*", "Its modules are: features, head"),
        ("", "Its modules are"),
    ],
)
def test_an_unknown_path_names_the_nearest_and_what_there_is(word: str, says: str) -> None:
    with pytest.raises(LaminarError) as caught:
        freeze(convnet(), [word])
    assert caught.value.code == "L203"
    assert says in caught.value.message, caught.value.message


def test_tied_weights_cannot_be_frozen_and_trained_at_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

    with pytest.raises(LaminarError, match=r"'a\.weight' is the same tensor as 'b\.weight'"):
        freeze(Tied(), ["a"])
    assert freeze(Tied(), ["a", "b"]).paths == ["a", "b"]


def test_replace_gives_the_factory_the_old_module_and_is_drawn_from_the_seed(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("from torch import nn\ndef head(old, classes): return nn.Linear(old.in_features, classes)\n")
    weights = []
    for seed in (0, 0, 1):
        model = convnet()
        new = replace(model, "head", "models:head", {}, tmp_path, seed=seed, inject={"classes": 3, "input_shape": (1, 8, 8)})
        assert model.get_submodule("head") is new
        weights.append(new.weight)
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]


def test_replace_inside_a_sequential_keeps_the_order() -> None:
    model = convnet()
    order = paths(model)
    replace(model, "features.act0", "laminar:head", {"old": nn.Linear(8, 2), "classes": 8}, Path(), seed=0)
    assert paths(model) == order
    with pytest.raises(LaminarError, match=r"did you mean 'features\.conv1'"):
        replace(model, "features.con1", "laminar:head", {}, Path(), seed=0, inject={"classes": 2})


def test_a_wrong_number_of_outputs_says_both_numbers() -> None:
    model = convnet()
    check_output(model, torch.zeros(2, 1, 8, 8), 5, "classification")
    with pytest.raises(LaminarError, match="gives 5 outputs, but the data has 7 classes") as caught:
        check_output(model, torch.zeros(2, 1, 8, 8), 7, "classification")
    assert caught.value.code == "L204"


def test_samples_that_do_not_fit_name_shape_and_module() -> None:
    with pytest.raises(LaminarError, match=r"\(1, 9, 13\).*in module 'head' \(Linear\)"):
        check_output(convnet(), torch.zeros(2, 1, 9, 13), 5, "classification")
    with pytest.raises(LaminarError, match=r"in module 'features.conv0' \(Conv2d\)"):
        check_output(convnet(), torch.zeros(2, 3, 8, 8), 5, "classification")


def test_checking_changes_nothing() -> None:
    model = convnet(dropout=0.5).train()
    freeze(model, ["features.norm0"])
    before = {k: v.clone() for k, v in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    rng = torch.get_rng_state()
    check_output(model, torch.ones(2, 1, 8, 8), 5, "classification")
    assert modes == [m.training for m in model.modules()]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(rng, torch.get_rng_state())


@pytest.mark.parametrize(
    ("task", "outputs", "module", "good"), [("regression", 1, nn.Flatten(0), True), ("regression", 2, nn.Linear(1, 1), False)]
)
def test_regression_targets(task: str, outputs: int, module: nn.Module, good: bool) -> None:
    if good:
        check_output(module, torch.zeros(4, 1), outputs, task)
    else:
        with pytest.raises(LaminarError, match="target values"):
            check_output(module, torch.zeros(4, 1), outputs, task)
