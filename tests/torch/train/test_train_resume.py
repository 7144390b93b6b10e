"""A run that was broken off anywhere ends with the bits of one that was not."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn
from train_jobs import VARIANTS, Crash, events, figures, job, kept, losses, net, same_bits, stop_at, tensors

from laminar.core.errors import LaminarError
from laminar.model.freeze import freeze
from laminar.train import checkpoint
from laminar.train.loop import train


@pytest.mark.parametrize("variant", VARIANTS)
def test_many_stops_give_the_bits_of_an_unbroken_run(variant: str, tmp_path: Path) -> None:
    whole = VARIANTS[variant](tmp_path / "whole")
    expected = train(whole)
    assert expected.resumed_from is None

    rng = random.Random(variant)
    for attempt, every in enumerate((1, 4)):
        folder = tmp_path / f"broken-{attempt}"
        stops = 0
        while True:
            made = VARIANTS[variant](folder)
            made.recipe = msgspec.structs.replace(made.recipe, checkpoint_steps=every)
            how = rng.choice(["crash", "ctrl-c"])
            stop_at(made, rng.randrange(every + 1, every + 4), how=how)
            try:
                found = train(made)
            except (Crash, KeyboardInterrupt):
                stops += 1
                continue
            break
        assert stops >= 2
        assert found.resumed_from is not None
        assert same_bits(tensors(whole), tensors(made))
        assert losses(folder) == losses(tmp_path / "whole")
        assert figures(folder) == figures(tmp_path / "whole")
        assert (found.steps, found.epochs) == (expected.steps, expected.epochs)
        assert {**found.metrics, "samples_per_second": 0} == {**expected.metrics, "samples_per_second": 0}


def test_a_stop_at_every_step_once(tmp_path: Path) -> None:
    """All the positions there are, epoch ends included: 6 steps an epoch, 2 epochs."""
    whole = job(tmp_path / "whole", epochs=2)
    train(whole)
    for step in range(12):
        folder = tmp_path / str(step)
        made = job(folder, epochs=2)
        stop_at(made, step, how="ctrl-c")
        with pytest.raises(KeyboardInterrupt):
            train(made)
        again = job(folder, epochs=2)
        assert train(again).resumed_from == step + 1
        assert same_bits(tensors(whole), tensors(again)), step
        assert losses(folder) == losses(tmp_path / "whole"), step
        assert figures(folder) == figures(tmp_path / "whole"), step


def test_every_batch_begins_on_a_cache_line_whatever_a_row_takes(tmp_path: Path) -> None:
    """Where it begins decides how MKL multiplies, and so the last bits; where a block begins depends on where a run was broken off."""
    made = VARIANTS["rows of 52 bytes"](tmp_path)
    found: list[int] = []
    made.model.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0].data_ptr() % 64) if module.training else None)
    train(made)
    assert found == [0] * 27


def test_without_a_checkpoint_the_run_starts_again(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole")
    train(whole)
    made = job(tmp_path / "broken")
    stop_at(made, 7)
    with pytest.raises(Crash):
        train(made)
    again = job(tmp_path / "broken")
    assert train(again).resumed_from is None
    assert same_bits(tensors(whole), tensors(again))
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")  # no step is told twice


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = job(tmp_path)
    done = train(first)
    second = job(tmp_path)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    second.model.register_forward_pre_hook(count)
    again = train(second)
    assert calls == 0
    assert same_bits(tensors(first), tensors(second))
    assert (again.metrics, again.steps, again.seconds, again.resumed_from) == (done.metrics, done.steps, done.seconds, done.steps)
    assert len(events(tmp_path, "end")) == 1


def test_a_resumed_run_takes_the_threads_it_had(tmp_path: Path) -> None:
    made = job(tmp_path, threads=2)
    stop_at(made, 3, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(made)
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is not None
    assert saved.state["threads"] == 2
    again = job(tmp_path)
    seen: list[int] = []
    again.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    train(again)
    assert set(seen) == {2}
    assert torch.get_num_threads() == 1


def test_a_checkpoint_of_another_recipe_is_left_aside_with_a_note(tmp_path: Path) -> None:
    train(job(tmp_path, epochs=1))
    other = job(tmp_path, epochs=2)
    done = train(other)
    assert done.resumed_from is None
    assert "another recipe" in done.notes[0]
    whole = job(tmp_path / "whole", epochs=2)
    train(whole)
    assert same_bits(tensors(whole), tensors(other))


def test_settings_that_change_no_bits_do_not_hinder_resuming(tmp_path: Path) -> None:
    made = job(tmp_path)
    stop_at(made, 3, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(made)
    assert train(job(tmp_path, checkpoint_seconds=5.0, keep_features="never")).resumed_from == 4


def test_the_freeze_state_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    """Resuming must neither freeze again what was trained nor train what was frozen."""
    train(job(tmp_path / "a"))
    with pytest.raises(LaminarError) as caught:
        train(job(tmp_path / "a", frozen=["features"]))
    assert caught.value.code == "L604"
    assert "features" in caught.value.message
    train(job(tmp_path / "b", frozen=["features"]))
    with pytest.raises(LaminarError) as caught:
        train(job(tmp_path / "b"))
    assert caught.value.code == "L604"


def test_other_parameters_do_not_fit(tmp_path: Path) -> None:
    train(job(tmp_path))
    other = net()
    other.head[4] = nn.Linear(8, 3, bias=False)
    with pytest.raises(LaminarError, match=r"head\.4\.bias") as caught:
        train(job(tmp_path, model=other))
    assert caught.value.code == "L604"
    wider = net()
    wider.head[0], wider.head[1], wider.head[4] = nn.Linear(64, 9), nn.BatchNorm1d(9), nn.Linear(9, 3)
    with pytest.raises(LaminarError, match=r"\[8, 64\] in the checkpoint") as caught:
        train(job(tmp_path, model=wider))
    assert caught.value.code == "L604"


def test_other_frozen_tensors_do_not_fit(tmp_path: Path) -> None:
    train(job(tmp_path, frozen=["features"]))
    other = net()
    with torch.no_grad():
        other.features[0].weight += 1
    with pytest.raises(LaminarError, match="other frozen tensors") as caught:
        train(job(tmp_path, model=other, frozen=["features"]))
    assert caught.value.code == "L604"


def test_frozen_tensors_are_not_in_the_file(tmp_path: Path) -> None:
    train(kept(tmp_path))
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is not None
    assert not [name for name in saved.tensors if "features" in name]
    assert {"model/head.0.weight", "model/head.1.running_mean", "optimizer/mean/head.0.weight", "rng"} <= saved.tensors.keys()
    assert "features" in saved.state["frozen"]["modules"]


def test_a_route_on_kept_features_trains_the_model_like_the_plain_one(tmp_path: Path) -> None:
    plain, short = job(tmp_path / "plain", frozen=["features"]), kept(tmp_path / "kept")
    train(plain)
    train(short)
    for name, tensor in tensors(plain).items():
        assert torch.allclose(tensor, tensors(short)[name], atol=1e-6), name
    assert torch.equal(plain.model.features[1].running_mean, net().features[1].running_mean)
    assert freeze(plain.model, ["features"]).digest() == freeze(net(), ["features"]).digest()
