"""Large batches: LARS and LAMB by their equations, rates that follow the batch, and steps of several batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from train_jobs import Crash, events, job, line, losses, numbers, same_bits, stop_at, tensors

from laminar.train.lamb import lamb
from laminar.train.lars import lars
from laminar.train.loop import train
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe


def tensors_of(seed: int) -> list[Tensor]:
    """A matrix, a bias, a kernel."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in ((7, 5), (7,), (3, 2, 3, 3))]


def grouped(params: list[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """For torch.optim: no decay for what has one dimension."""
    return [{"params": [p], "weight_decay": decay if p.ndim > 1 else 0.0} for p in params]


def close(ours: list[Tensor], theirs: list[nn.Parameter], within: float = 1e-6) -> bool:
    return all(torch.allclose(a, b, atol=within, rtol=1e-5) for a, b in zip(ours, theirs, strict=True))


def test_lars_with_the_ratio_forced_to_1_is_momentum_sgd() -> None:
    ours, theirs = tensors_of(0), [nn.Parameter(t) for t in tensors_of(0)]
    momenta = [torch.zeros_like(t) for t in ours]
    peer = torch.optim.SGD(grouped(theirs, 0.01), lr=0.1, momentum=0.9)
    for step in range(1, 8):
        grads = tensors_of(step)
        lars(ours, grads, momenta, lr=0.1, momentum=0.9, weight_decay=0.01, trust=None)
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad
        peer.step()
    assert close(ours, theirs)


def test_lamb_with_the_ratio_forced_to_1_is_adamw() -> None:
    ours, theirs = tensors_of(0), [nn.Parameter(t) for t in tensors_of(0)]
    means, squares = [torch.zeros_like(t) for t in ours], [torch.zeros_like(t) for t in ours]
    counts = [torch.zeros(()) for _ in ours]
    peer = torch.optim.AdamW(grouped(theirs, 0.1), lr=0.02, betas=(0.8, 0.95), eps=1e-6)
    for step in range(1, 8):
        grads = tensors_of(step)
        lamb(ours, grads, means, squares, counts, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, ratio=False)
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad
        peer.step()
    assert close(ours, theirs)


def params_with(values: list[Tensor], grads: list[Tensor]) -> dict[str, nn.Parameter]:
    made = {str(i): nn.Parameter(value.clone()) for i, value in enumerate(values)}
    for p, grad in zip(made.values(), grads, strict=True):
        p.grad = grad.clone()
    return made


def test_lars_by_its_equations() -> None:
    (w, b, _), (g, d, _) = tensors_of(0), tensors_of(1)
    made = params_with([w, b], [g, d])
    optimizer = Optimizer(Recipe(epochs=1, optimizer="lars", momentum=0.5, weight_decay=0.1, trust=0.02), made)
    v, u = torch.zeros_like(w), torch.zeros_like(b)
    for _ in range(3):
        lam = 0.02 * w.norm() / (g.norm() + 0.1 * w.norm())
        v = 0.5 * v + 3.0 * lam * (g + 0.1 * w)
        u = 0.5 * u + 3.0 * d  # a bias: no ratio, no decay
        w, b = w - v, b - u
        optimizer.step(3.0)
    assert torch.allclose(made["0"], w, atol=1e-5) and torch.allclose(made["1"], b, atol=1e-5)


def test_lamb_by_its_equations() -> None:
    (w, b, _), (g, d, _) = tensors_of(0), tensors_of(1)
    made = params_with([w, b], [g, d])
    optimizer = Optimizer(Recipe(epochs=1, optimizer="lamb", weight_decay=0.1), made)
    for _ in range(3):  # the same gradient each time: its corrected moments are itself and its square
        r = g / (g.abs() + 1e-6) + 0.1 * w
        w = w - 0.01 * w.norm() / r.norm() * r
        b = b - 0.01 * d / (d.abs() + 1e-6)
        optimizer.step(0.01)
    assert torch.allclose(made["0"], w, atol=1e-5) and torch.allclose(made["1"], b, atol=1e-5)


@pytest.mark.parametrize("kind", ["lars", "lamb"])
def test_a_norm_of_zero_means_ratio_one(kind: str) -> None:
    made = params_with([torch.zeros(3, 3), torch.ones(3, 3)], [torch.ones(3, 3), torch.zeros(3, 3)])
    Optimizer(Recipe(epochs=1, optimizer=kind, weight_decay=0), made).step(0.5)
    assert torch.allclose(made["0"], torch.full((3, 3), -0.5), atol=1e-5)
    assert torch.equal(made["1"], torch.ones(3, 3))


@pytest.mark.parametrize("fields", [{"optimizer": "lars", "lr": 3.0}, {"optimizer": "lamb", "lr": 0.02}])
def test_they_learn(fields: dict[str, Any], tmp_path: Path) -> None:
    assert train(job(tmp_path, epochs=12, **fields)).metrics["accuracy"] > 0.8


# Steps of several batches


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9},
        {"clip": 0.5, "schedule": "cosine", "warmup": 3},
        {"loss": "l1", "optimizer": "lamb"},
        {"scale_lr": "linear", "base_batch": 64},
    ],
)
@pytest.mark.parametrize(("batch", "several"), [(4, 4), (8, 2)])
def test_several_batches_make_the_step_of_a_large_one(batch: int, several: int, fields: dict[str, Any], tmp_path: Path) -> None:
    """90 samples: five steps of 16, and one of the 10 that are left, in unequal batches."""
    large = job(tmp_path / "large", model=line(), data=numbers(), batch=16, dtype="float64", **fields)
    small = job(tmp_path / "small", model=line(), data=numbers(), batch=batch, accumulate=several, dtype="float64", **fields)
    done, other = train(large), train(small)
    assert (done.steps, other.steps) == (18, 18)
    for (step, epoch, loss, lr), (step_, epoch_, loss_, lr_) in zip(losses(tmp_path / "large"), losses(tmp_path / "small"), strict=True):
        assert (step, epoch, lr) == (step_, epoch_, lr_)
        assert loss == pytest.approx(loss_, abs=1e-9)
    for name, tensor in tensors(large).items():
        assert torch.allclose(tensor, tensors(small)[name], atol=1e-9), name
    assert done.metrics["loss"] == pytest.approx(other.metrics["loss"], abs=1e-9)


def test_in_float32_too(tmp_path: Path) -> None:
    large = job(tmp_path / "large", model=line(), data=numbers(), batch=16, optimizer="sgd", lr=0.05)
    small = job(tmp_path / "small", model=line(), data=numbers(), batch=4, accumulate=4, optimizer="sgd", lr=0.05)
    train(large)
    train(small)
    assert all(torch.allclose(tensor, tensors(small)[name], atol=1e-6) for name, tensor in tensors(large).items())


def test_more_batches_than_an_epoch_has_are_one_step(tmp_path: Path) -> None:
    done = train(job(tmp_path, model=line(), data=numbers(), epochs=2, accumulate=1000))
    assert done.steps == 2
    assert [e["step"] for e in events(tmp_path, "step")] == [0, 1]


def test_a_run_of_such_steps_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"batch": 8, "accumulate": 3, "optimizer": "lamb", "checkpoint_steps": 1}
    whole = job(tmp_path / "whole", **fields)
    train(whole)
    broken = job(tmp_path / "broken", **fields)
    stop_at(broken, 16)  # in the middle of a step, and of an epoch
    with pytest.raises(Crash):
        train(broken)
    again = job(tmp_path / "broken", **fields)
    assert train(again).resumed_from == 5
    assert same_bits(tensors(whole), tensors(again))
    assert losses(tmp_path / "whole") == losses(tmp_path / "broken")


def test_half_precision_adds_up_too(tmp_path: Path) -> None:
    done = train(job(tmp_path, epochs=10, batch=8, accumulate=2, dtype="float16"))
    assert done.metrics["accuracy"] > 0.8
