"""What a worker keeps of its own is for the next attempt at the same training, and for nobody else."""

from __future__ import annotations

from pathlib import Path

import torch

from laminar.parallel.apart.own_state import Attempt, OwnState
from laminar.parallel.apart.work import Task

TASK = Task(number=3, epoch=1, first=2, last=6)


def own(folder: Path, training: str, number: int, worker: str = "0") -> OwnState:
    return OwnState(folder, worker, Attempt(training=training, number=number))


def test_between_tasks_it_is_for_the_next_attempt(tmp_path: Path) -> None:
    own(tmp_path, "a", 1).save({"v": torch.ones(2)}, {"place": 4})
    found = own(tmp_path, "a", 2).load()
    assert found is not None and found.tensors["v"].tolist() == [1, 1] and found.state["place"] == 4 and found.task is None
    before = torch.get_rng_state()
    torch.rand(1)
    found.load_rng()
    assert torch.equal(torch.get_rng_state(), before)


def test_old_ones_are_not_used_and_go(tmp_path: Path) -> None:
    for training, number in [("b", 2), ("a", 1), ("a", 3)]:
        own(tmp_path, "a", 1).save({}, {})
        assert own(tmp_path, training, number).load() is None
        assert not list(tmp_path.iterdir())


def test_within_a_task_it_is_for_any_attempt_at_the_same_training(tmp_path: Path) -> None:
    own(tmp_path, "a", 1).save({}, {}, task=TASK, start=77)
    for number in (1, 2, 5):
        found = own(tmp_path, "a", number).load()
        assert found is not None and found.task == TASK and found.start == 77
    assert own(tmp_path, "a", 1, worker="1").load() is None
    assert own(tmp_path, "b", 2).load() is None
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "worker-0.safetensors").write_bytes(b"not what it was")
    assert own(tmp_path, "a", 1).load() is None
    assert not list(tmp_path.iterdir())


def test_who_joined_keeps_nothing(tmp_path: Path) -> None:
    guest = OwnState(None, "7", Attempt(training="a", number=1))
    guest.save({"v": torch.ones(2)}, {})
    assert guest.load() is None
    guest.forget()
    assert not list(tmp_path.iterdir())
