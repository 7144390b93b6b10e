"""A task that takes long is kept halfway: what a killed process had done of it is not done again, and the answer is the same to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from laminar.data.spec import DataSpec, SampleSpec
from laminar.grid.describe import version_of
from laminar.grid.node import halfway
from laminar.grid.node.home import Home
from laminar.grid.node.worker import Worker
from laminar.train.on_grid import Grid
from tests.torch.grid import test_node_worker
from tests.torch.grid.test_node_worker import change_in, job, node, task

STEPS, KILLED = 9, 6
SAMPLE = DataSpec(source="digits", sample=SampleSpec(per_class=10))  # of 100, three batches and a bit: epochs end in the midst of the task


class Killed(BaseException):
    pass


class Net(nn.Module):
    """With batch statistics, and with random numbers in it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.4), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Steps:
    """A pause that counts, and kills after so many."""

    def __init__(self, most: int | None = None) -> None:
        self.count, self._most = 0, most

    def __call__(self) -> None:
        if self.count == self._most:
            raise Killed
        self.count += 1


@pytest.fixture(autouse=True)
def odd_net_kept_at_every_third_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def third(self: halfway.Halfway) -> bool:
        asked[self] = asked.get(self, 0) + 1
        return asked[self] % 3 == 0

    asked: dict[halfway.Halfway, int] = {}
    monkeypatch.setattr(test_node_worker, "Net", Net)
    monkeypatch.setattr(halfway.Halfway, "due", property(third))


@pytest.mark.parametrize("harm", ["none", "damaged", "of another task"])
def test_a_killed_task_goes_on_where_it_was(harm: str, tmp_path: Path) -> None:
    made, described = job(tmp_path, Grid(local_steps=STEPS), SAMPLE, optimizer="adam", lr=0.01)
    version = version_of(made)
    work = task(described, version, steps=STEPS, sample=3)

    _, whole = node(tmp_path / "whole", described, version, samples=[3])
    expected = whole.do(work)
    wanted, answer = change_in(Home(tmp_path / "whole" / "home"), described)

    home, worker = node(tmp_path / "killed", described, version, samples=[3, 4])
    with pytest.raises(Killed):
        worker.do(work, Steps(KILLED + 1))
    path = home.halfway_path(work.result)
    assert path.exists()
    if harm == "damaged":
        path.write_bytes(path.read_bytes()[:-100])
    elif harm == "of another task":
        other = task(described, version, steps=STEPS, sample=4)
        Worker(home)._home.halfway_path(1).unlink()
        with pytest.raises(Killed):
            Worker(home).do(other, Steps(KILLED + 1))
    steps = Steps()
    said = Worker(home).do(work, steps)  # after a reboot
    assert steps.count == (STEPS - KILLED if harm == "none" else STEPS)
    found, resumed = change_in(home, described)
    assert (found == wanted).all() and (resumed.buffers == answer.buffers).all()
    assert said["samples"] == expected["samples"] and said["loss"] == pytest.approx(expected["loss"])
    assert not path.exists()


def test_a_disk_that_is_full_costs_the_checkpoint_and_not_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, described = job(tmp_path, Grid(local_steps=STEPS), SAMPLE)
    version = version_of(made)
    home, worker = node(tmp_path, described, version, samples=[3])

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(halfway.atomic, "write_bytes", full)
    worker.do(task(described, version, steps=STEPS, sample=3))
    assert np.isfinite(change_in(home, described)[0]).all()


def test_it_is_written_seldom_and_what_belongs_to_no_task_is_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    made, described = job(tmp_path, Grid())
    version = version_of(made)
    work, now = task(described, version, steps=2), [0.0]
    home = Home(tmp_path / "home")
    kept = halfway.Halfway(home.halfway_path(1), work, lambda: now[0])
    assert not kept.due
    now[0] = halfway.EVERY
    assert kept.due
    kept.keep({}, steps=1, losses=0.5, samples=32, seconds=1.0)
    assert not kept.due
    found = kept.found()
    assert found is not None and found.behind.steps == 1 and found.behind.losses == 0.5
    home.note_task(work)
    home.sweep()
    assert home.halfway_path(1).exists()
    home.forget_task(1)
    assert not home.halfway_path(1).exists()
    home.halfway_path(7).write_bytes(b"")
    home.sweep()
    assert not home.halfway_path(7).exists()
