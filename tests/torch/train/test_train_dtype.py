"""Dtypes: what is computed in, and a processor that cannot."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from train_jobs import job, losses, net, same_bits, stop_at, tensors

from laminar.core.errors import LaminarError
from laminar.train import dtype
from laminar.train.loop import train
from laminar.train.recipe import Recipe


def test_float64_means_every_tensor(tmp_path: Path) -> None:
    made = job(tmp_path, dtype="float64")
    kinds: set[torch.dtype] = set()
    made.model.register_forward_hook(lambda _, inputs, out: kinds.update({inputs[0].dtype, out.dtype}))
    train(made)
    assert kinds == {torch.float64}
    assert {t.dtype for t in made.model.state_dict().values()} == {torch.float64, torch.int64}


def test_a_layer_in_float32_on_one_in_float64_is_cast_before_it_is_frozen(tmp_path: Path) -> None:
    model = net().double()
    dtype.prepare(model, Recipe(epochs=1))
    assert {t.dtype for t in model.state_dict().values()} == {torch.float32, torch.int64}
    train(job(tmp_path, model=model, frozen=["features"], epochs=1))


def test_a_trial_that_dies_is_an_error_and_not_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype, "_TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(LaminarError) as caught:
        dtype.prepare(net(), Recipe(epochs=1, dtype="bfloat16"))
    assert caught.value.code == "L605"
    assert f"died by {signal.Signals.SIGILL.name}" in caught.value.message
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in caught.value.hint
    assert 'dtype = "float32"' in caught.value.hint


def test_a_trial_that_fails_tells_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype, "_TRIAL", "raise RuntimeError('no such kernel')")
    with pytest.raises(LaminarError, match="no such kernel"):
        dtype.prepare(net(), Recipe(epochs=1, dtype="float16"))


def test_float32_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtype, "probe", lambda _: pytest.fail("probed"))
    dtype.prepare(net(), Recipe(epochs=1))
    dtype.prepare(net(), Recipe(epochs=1, dtype="float64"))


def test_float16_trains_scaled_and_resumes(tmp_path: Path) -> None:
    try:
        dtype.probe("float16")
    except LaminarError as error:
        pytest.skip(error.message)
    whole = job(tmp_path / "whole", dtype="float16", epochs=4)
    kinds: set[torch.dtype] = set()
    whole.model.register_forward_hook(lambda *a: kinds.add(a[2].dtype))
    done = train(whole)
    assert torch.float16 in kinds
    assert {t.dtype for t in whole.model.state_dict().values()} == {torch.float32, torch.int64}
    assert losses(tmp_path / "whole")[-1][2] < losses(tmp_path / "whole")[0][2]
    assert done.metrics["accuracy"] > 0.3
    broken = job(tmp_path / "broken", dtype="float16", epochs=4)
    stop_at(broken, 9, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(broken)
    again = job(tmp_path / "broken", dtype="float16", epochs=4)
    train(again)
    assert same_bits(tensors(whole), tensors(again))


def test_the_scale_halves_on_overflow_and_grows_back() -> None:
    scale = dtype.LossScale()
    assert not scale.unscale([torch.tensor([1.0]), torch.tensor([float("inf")])])
    assert scale.scale == 2.0**15
    for _ in range(scale.GROW_AFTER):
        assert scale.unscale([torch.tensor([2.0**15])])
    assert scale.scale == 2.0**16
    gradient = torch.tensor([2.0**16])
    scale.unscale([gradient])
    assert gradient.item() == 1.0
