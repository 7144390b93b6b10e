"""Parameters in any order of memory, with gaps and without: trained as unfused torch.optim trains contiguous ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from train_jobs import Crash, images, job, numbers, same_bits, stop_at, tensors

from laminar.core.errors import LaminarError
from laminar.parallel.split.weight_grads import WeightGradients, convolution
from laminar.train.loop import train
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe

Peer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

PAIRS: list[tuple[dict[str, Any], Peer]] = [
    ({"optimizer": "sgd", "lr": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1, foreach=False)),
    ({"optimizer": "sgd", "lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False)),
    ({"optimizer": "adam", "lr": 0.01}, lambda p: torch.optim.Adam(p, lr=0.01, foreach=False)),
    ({"optimizer": "adamw", "lr": 0.01}, lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.01, foreach=False)),
    ({"optimizer": "adagrad", "lr": 0.01}, lambda p: torch.optim.Adagrad(p, lr=0.01, foreach=False)),
]


def plain(drawn: Tensor) -> Tensor:
    return drawn.clone()


def transposed(drawn: Tensor) -> Tensor:
    return drawn.t().contiguous().t()


def with_gaps(drawn: Tensor) -> Tensor:
    return torch.stack([drawn, torch.full_like(drawn, 7.0)], 2).flatten(1)[:, ::2]


LAYOUTS = [plain, transposed, with_gaps]


class Tied(nn.Module):
    """The first and the second weight are one."""

    def __init__(self, layout: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.first.weight = self.second.weight = nn.Parameter(layout(0.3 * torch.randn(6, 6)))
        self.last.weight = nn.Parameter(layout(0.3 * torch.randn(2, 6)))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return out


@pytest.mark.parametrize(("fields", "peer"), PAIRS, ids=lambda o: "-".join(map(str, o.values())) if isinstance(o, dict) else "")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("foreign", [False, True], ids=["autograd", "foreign"])
def test_steps_do_not_depend_on_strides(fields: dict[str, Any], peer: Peer, layout: Callable[[Tensor], Tensor], foreign: bool) -> None:
    """`foreign`: gradients that autograd has not made, contiguous as those of a team are."""
    ours, theirs = Tied(layout), Tied(plain)
    recipe = Recipe(epochs=1, **fields)
    optimizer, reference = Optimizer(recipe, dict(ours.named_parameters())), peer(list(theirs.parameters()))
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    for _ in range(6):
        for model in (ours, theirs):
            model(x).square().sum().backward()
        if foreign:
            for parameter in ours.parameters():
                assert parameter.grad is not None
                parameter.grad = parameter.grad.clone(memory_format=torch.contiguous_format)
        optimizer.step(recipe.rate)
        optimizer.zero_grad()
        reference.step()
        reference.zero_grad()
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, msg=name)
    assert ours.first.weight is ours.second.weight
    assert ours.first.weight.stride() == layout(torch.zeros(6, 6)).stride()


def test_memory_with_gaps_stays_where_others_see_it() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("all", torch.ones(3, 4))
            self.even = nn.Parameter(self.get_buffer("all")[:, ::2])

    model = Shared()
    optimizer = Optimizer(Recipe(epochs=1, optimizer="sgd"), dict(model.named_parameters()))
    model.even.sum().backward()
    optimizer.step(0.5)
    assert model.get_buffer("all").tolist() == [[0.5, 1.0, 0.5, 1.0]] * 3


@pytest.mark.parametrize(("fields", "peer"), PAIRS[1:3], ids=["sgd", "adam"])
@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("more", [{}, {"accumulate": 3}, {"dtype": "float64", "clip": 0.1}], ids=str)
def test_a_run_learns_the_same_in_any_layout(
    fields: dict[str, Any], peer: Peer, layout: Callable[[Tensor], Tensor], more: dict[str, Any], tmp_path: Path
) -> None:
    del peer
    made = [job(tmp_path / one.__name__, model=Tied(one), data=numbers(wide=6), **fields, **more) for one in (layout, plain)]
    for one in made:
        train(one)
    for name, tensor in tensors(made[1]).items():
        torch.testing.assert_close(tensors(made[0])[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_goes_on_to_the_same_bits(layout: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    def made(folder: str) -> Any:
        return job(tmp_path / folder, model=Tied(layout), data=numbers(wide=6), optimizer="adam", checkpoint_steps=2)

    whole, broken = made("whole"), made("broken")
    train(whole)
    stop_at(broken, 9)
    with pytest.raises(Crash):
        train(broken)
    again = made("broken")
    assert train(again).resumed_from is not None
    assert same_bits(tensors(whole), tensors(again))


def test_a_sparse_gradient_of_a_permuted_table(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self, layout: Callable[[Tensor], Tensor], *, sparse: bool) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.table, self.head = nn.Embedding(256, 5, sparse=sparse), nn.Linear(5, 3)
            self.table.weight = nn.Parameter(layout(self.table.weight.detach()))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.table((255 * x).long().flatten(1)).mean(1))
            return out

    odd = job(tmp_path / "odd", model=Table(transposed, sparse=True), optimizer="adam")
    usual = job(tmp_path / "usual", model=Table(plain, sparse=False), optimizer="adam")
    for one in (odd, usual):
        train(one)
    for name, tensor in tensors(usual).items():
        torch.testing.assert_close(tensors(odd)[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


def test_a_gradient_that_a_pipeline_computes_apart_has_its_weights_strides() -> None:
    torch.manual_seed(2)
    images_last = torch.randn(3, 4, 6, 6).to(memory_format=torch.channels_last)
    for weight in (torch.randn(5, 4, 3, 3), torch.randn(5, 4, 3, 3).to(memory_format=torch.channels_last)):
        for x in (images_last, images_last.contiguous()):
            parameter = nn.Parameter(weight.clone())
            convolution(x, parameter, None, ([1, 1], [1, 1], [1, 1], 1), WeightGradients(apart=False)).square().sum().backward()  # type: ignore[no-untyped-call]
            assert parameter.grad is not None
            assert parameter.grad.stride() == parameter.stride()


class Odd(nn.Module):
    def __init__(self, odd: Tensor) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.odd, self.head = nn.Parameter(odd), nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x.flatten(1) * self.odd.flatten()[:1])
        return out


@pytest.mark.parametrize(
    "odd", [torch.full((1,), 0.25).expand(4096), torch.ones(6).as_strided((4, 3), (1, 1))], ids=["expanded", "windows"]
)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_several_elements_in_one_place_are_refused(odd: Tensor, optimizer: str, tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        train(job(tmp_path, model=Odd(odd), data=images(), optimizer=optimizer))
    assert caught.value.code == "L606"
    assert f"the parameter 'odd' of shape {list(odd.shape)} has strides {list(odd.stride())}" in caught.value.message
    assert ".clone()" in caught.value.hint


def test_what_looks_like_it_is_not(tmp_path: Path) -> None:
    """Steps of 3 and 2 cross each other, and meet nowhere; and what is frozen nobody writes to."""
    for i, odd in enumerate([torch.ones(9).as_strided((2, 3), (3, 2)), torch.ones(0, 3)]):
        model = Odd(odd)
        if not odd.numel():
            model.forward = lambda x, model=model: model.head(x.flatten(1)) + model.odd.sum()  # type: ignore[method-assign, misc]
        train(job(tmp_path / str(i), model=model, data=images(), epochs=1))
    model = Odd(torch.ones(1).expand(5))
    model.odd.requires_grad_(False)
    train(job(tmp_path / "frozen", model=model, data=images(), epochs=1, frozen=None))
