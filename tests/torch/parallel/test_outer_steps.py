"""Outer steps: averages, and DiLoCo's Nesterov by the letter of its equations."""

from __future__ import annotations

import pytest
import torch

from laminar.core.errors import LaminarError
from laminar.parallel.outer import Average, Nesterov, mean_of


def vectors(count: int, size: int = 1000) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def test_means() -> None:
    workers = vectors(4)
    assert torch.allclose(mean_of(workers), torch.stack(workers).mean(0), atol=1e-6)
    assert torch.allclose(mean_of(workers, [300, 100, 0, 100]), 0.6 * workers[0] + 0.2 * workers[1] + 0.2 * workers[3], atol=1e-6)
    assert torch.equal(mean_of(workers[:1], [7]), workers[0])
    wanted = mean_of(workers)
    assert mean_of(workers, out=workers[2]) is workers[2]
    assert torch.equal(workers[2], wanted)


@pytest.mark.parametrize(("count", "weights"), [(0, None), (2, [1.0]), (2, [0.0, 0.0]), (2, [2.0, -1.0])])
def test_a_mean_of_nothing_is_refused(count: int, weights: list[float] | None) -> None:
    with pytest.raises(ValueError, match="workers with weights"):
        mean_of(vectors(count), weights)


def test_average_takes_the_mean() -> None:
    start, mean = vectors(2)
    Average().step(start, mean)
    assert torch.equal(start, mean)


def test_nesterov_is_dilocos() -> None:
    """d = start - mean; m = mu m + d; w = start - lr (d + mu m): also what torch's own Nesterov SGD does with d as gradient."""
    start, *means = vectors(6)
    parameter = torch.nn.Parameter(start.clone())
    peer = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
    outer, by_hand, m = Nesterov(start), start.clone(), torch.zeros_like(start)
    for mean in means:
        d = by_hand - mean
        m = 0.9 * m + d
        by_hand = by_hand - 0.7 * (d + 0.9 * m)
        parameter.grad = parameter.detach() - mean
        peer.step()
        outer.step(start, mean.clone())
    assert torch.allclose(start, by_hand, atol=1e-5)
    assert torch.allclose(start, parameter, atol=1e-5)


def test_nesterov_without_momentum_and_rate_one_is_the_average() -> None:
    start, mean = vectors(2)
    Nesterov(start, lr=1.0, momentum=0.0).step(start, wanted := mean.clone())
    assert torch.allclose(start, mean, atol=1e-6)
    assert wanted is not mean


def test_its_state_comes_back() -> None:
    start, one, two = vectors(3)
    first, second = Nesterov(start), Nesterov(start)
    first.step(start, one.clone())
    again = start.clone()
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    first.step(start, two.clone())
    second.step(again, two.clone())
    assert torch.equal(start, again)
    for bad in ({}, {"momentum": torch.zeros(3)}):
        with pytest.raises(LaminarError) as caught:
            first.load(bad)
        assert caught.value.code == "L604"
    Average().load(Average().state())


def test_settings_that_cannot_be() -> None:
    for fields in ({"lr": 0.0}, {"momentum": 1.0}):
        with pytest.raises(ValueError, match="lr is"):
            Nesterov(torch.zeros(1), **fields)
