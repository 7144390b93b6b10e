"""ISGD: which batches get further steps, what these steps are, and where it is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from train_jobs import job

from laminar.train.isgd import Inconsistent, control_limit
from laminar.train.loop import train
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.snapshot import Progress


def test_the_limit_is_the_mean_and_three_standard_deviations() -> None:
    assert control_limit([1.0, 3.0], 3.0) == pytest.approx(2.0 + 3.0 * 1.0)
    assert control_limit([2.0, 2.0, 2.0], 3.0) == pytest.approx(2.0)


@pytest.mark.parametrize(("deviations", "repeats", "further"), [(0.5, 1, 1), (0.5, 5, 5), (1.2, 5, 0)])
def test_a_batch_out_of_control_gets_steps_until_it_is_in_control(deviations: float, repeats: int, further: int) -> None:
    """The loss is w squared / 2, so its gradient is w."""
    w = nn.Parameter(torch.tensor([3.0], dtype=torch.float64))
    recipe = Recipe(epochs=2, optimizer="isgd", lr=0.1, deviations=deviations, repeats=repeats, caution=0.2)
    progress = Progress(epoch=1, losses=[0.0, 1.0, 1.0])
    optimizer = Optimizer(recipe, {"w": w})
    made = Inconsistent(recipe, progress, batches_per_epoch=3)

    def again() -> float:
        loss = w.square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    loss = again()
    made.step(optimizer, 0.1, loss, again)
    limit = control_limit([1.0, 1.0, 4.5], deviations)
    expected, steps = 3.0 - 0.1 * 3.0, 0
    while steps < repeats and expected**2 / 2 > limit:
        expected -= 0.1 * ((expected**2 / 2 - limit) * expected + 0.2 * (expected - 3.0))
        steps += 1
    assert steps == further
    assert float(w.detach()) == pytest.approx(expected, rel=1e-12)
    assert progress.repeated == 1


def test_batches_in_control_are_trained_as_sgd_trains_them(tmp_path: Path) -> None:
    plain, never = job(tmp_path / "sgd", optimizer="sgd", lr=0.1), job(tmp_path / "isgd", optimizer="isgd", lr=0.1, deviations=1e6)
    train(plain)
    assert not any("isgd" in note for note in train(never).notes)
    for ours, theirs in zip(never.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_note_says_how_many_batches_were_out_of_control(tmp_path: Path) -> None:
    done = train(job(tmp_path, optimizer="isgd", lr=0.1, deviations=0.5, epochs=4))
    (note,) = [note for note in done.notes if "isgd" in note]
    count = int(note.split("further steps on ")[1].split()[0])
    assert 0 < count < done.steps
    assert math.isfinite(done.metrics["loss"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"strategy": "sync"}, "only one process takes further steps"),
        ({"strategy": "downpour"}, "only one process takes further steps"),
        ({"accumulate": 2}, 'accumulate is 2 with optimizer "isgd", but must be 1'),
        ({"dtype": "float16"}, "dtype is 'float16'"),
        ({"repeats": 0}, "repeats is 0, but must be 1 or more"),
        ({"deviations": 0.0}, "deviations is 0.0"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Recipe(epochs=1, optimizer="isgd", **fields)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='it belongs to "isgd"'):
        Recipe(epochs=1, optimizer="sgd", repeats=2)
