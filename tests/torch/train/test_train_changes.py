"""The change of all weights over an epoch: what it is, that it is told, and that training stops by it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from train_jobs import Crash, events, job, line, numbers, stop_at

from laminar.core.errors import LaminarError
from laminar.train import changes, checkpoint
from laminar.train.changes import Changes, squares
from laminar.train.loop import train
from laminar.train.recipe import Target


def weights(model: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().double().numpy().ravel() for p in model.parameters() if p.requires_grad])


def test_every_epoch_tells_how_far_the_trained_weights_went(tmp_path: Path) -> None:
    made = job(tmp_path, frozen=["features"], keep_features="never")
    made.model.get_submodule("features").requires_grad_(False)
    seen = [weights(made.model)]
    train(made, lambda event: seen.append(weights(made.model)) if event["event"] == "epoch" else None)
    expected = [np.linalg.norm(b - a) / max(np.linalg.norm(a), np.linalg.norm(b)) for a, b in itertools.pairwise(seen)]
    assert [e["change"] for e in events(tmp_path, "epoch")] == pytest.approx(expected, rel=1e-12)
    assert all(0 < one < 1 for one in expected)


def test_weights_that_begin_at_nothing_have_changed_by_all_they_are() -> None:
    tensor = nn.Parameter(torch.zeros(5))
    made = Changes({"w": tensor}, None, asked=False)
    assert made.of_epoch() is None  # nobody knows what they were
    made.begin()
    assert made.of_epoch() == 0.0
    tensor.data += 2
    assert made.of_epoch() == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_the_same_weights_give_the_same_bits_whatever_the_threads(dtype: torch.dtype) -> None:
    """Pieces and all: one number more than three of them, and rows that do not lie one after the other."""
    torch.manual_seed(1)
    shape = (3 * changes.PIECE + 1, 2)
    after, before = (torch.randn(shape).to(dtype).t() for _ in range(2))
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(squares(after, before))
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]
    plain = [np.abs(one.to(torch.complex128).numpy()) for one in (after - before, after, before)]
    tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-6
    assert found[0] == pytest.approx([float((one**2).sum()) for one in plain], rel=tolerance)


def test_training_stops_where_weights_hardly_change(tmp_path: Path) -> None:
    train(job(tmp_path / "all", epochs=8))
    told = [e["change"] for e in events(tmp_path / "all", "epoch")]
    target = math.sqrt(told[4] * min(told[:4]))  # between the fifth and all before it
    assert told[4] < target < min(told[:4])
    done = train(job(tmp_path / "asked", epochs=8, target=Target(change=target)))
    assert done.epochs == 5
    assert [e["change"] for e in events(tmp_path / "asked", "epoch")] == told[:5]
    assert f"target reached in epoch 5, in which weights changed by {told[4]:.4f} of their size" in done.notes[-1]


def test_all_figures_of_a_target_are_wanted(tmp_path: Path) -> None:
    done = train(job(tmp_path, epochs=2, target=Target(change=0.999, loss=0.0)))
    assert done.epochs == 2
    assert not done.notes


def test_of_a_large_model_it_is_told_to_those_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "UNASKED", 100)
    train(job(tmp_path / "unasked", epochs=1))
    train(job(tmp_path / "asked", epochs=1, target=Target(change=1e-9)))
    assert [e["change"] for e in events(tmp_path / "unasked", "epoch")] == [None]
    assert events(tmp_path / "asked", "epoch")[0]["change"] > 0


def test_within_an_epoch_only_who_asked_keeps_what_the_weights_were(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole", epochs=2)
    train(whole)
    told = [e["change"] for e in events(tmp_path / "whole", "epoch")]
    for name, target, names in (("unasked", None, False), ("asked", Target(change=1e-9), True)):
        made = job(tmp_path / name, epochs=2, checkpoint_steps=4, target=target)
        stop_at(made, 5)
        with pytest.raises(Crash):
            train(made)
        saved, _ = checkpoint.newest(tmp_path / name)
        assert saved is not None
        assert any(one.startswith("before/") for one in saved.tensors) == names
        assert train(job(tmp_path / name, epochs=2, target=target)).resumed_from == 4
        assert [e["change"] for e in events(tmp_path / name, "epoch")] == [told[0] if names else None, told[1]]


def test_a_regression_has_it_too_and_the_error_lists_it(tmp_path: Path) -> None:
    train(job(tmp_path / "line", model=line(), data=numbers(), epochs=1, target=Target(change=0.5)))
    with pytest.raises(LaminarError, match="there are only loss, mae, r2, change") as caught:
        train(job(tmp_path / "wrong", model=line(), data=numbers(), target=Target(accuracy=0.5)))
    assert caught.value.hint == "write target = { loss = … }"


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.0, float("nan")])
def test_a_change_is_a_share(wrong: float) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"target\.change is"):
        msgspec.convert({"change": wrong}, Target)
