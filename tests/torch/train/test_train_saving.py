"""What a checkpoint costs: when one is written, and the seconds and bytes that are told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from train_jobs import Crash, events, job, stop_at

from laminar.core.clock import FakeClock
from laminar.train import checkpoint
from laminar.train.history import Saved
from laminar.train.job import Trained
from laminar.train.loop import train


class Slow:
    """A clock that sleeping moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        monkeypatch.setattr("laminar.train.saving.time.sleep", self.clock.advance)

    def train(self, folder: Path, **options: Any) -> Trained:
        return train(job(folder, clock=self.clock, **options))


def test_a_checkpoint_after_every_so_many_steps_and_none_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six steps an epoch: the sixth is the last of the first epoch."""
    done = Slow(monkeypatch).train(tmp_path, epochs=2, checkpoint_steps=3)
    told = [(e["step"], e["why"]) for e in events(tmp_path, "checkpoint")]
    assert told == [(3, "steps"), (6, "steps"), (9, "steps"), (12, "steps"), (12, "end")]
    assert [(e["step"], e["why"]) for e in events(tmp_path, "saved")] == told
    assert done.checkpoint_seconds == 0.0  # by this clock


def test_seconds_and_bytes_are_told_and_those_of_the_end_are_no_part_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Slow(monkeypatch).train(tmp_path, epochs=2, checkpoint_steps=4, checkpoint_write_seconds=20.0)
    saved = events(tmp_path, "saved")
    assert [e["seconds"] for e in saved] == [20.0] * 4  # steps 4, 8 and 12, and the end
    assert done.checkpoint_seconds == 60.0
    assert done.seconds == 60.0  # nothing else takes any time here
    found, _ = checkpoint.newest(tmp_path)
    assert found is not None
    assert saved[-1]["bytes"] == found.bytes == (tmp_path / found.file).stat().st_size
    assert set(saved[0]) == {"event", "t", *Saved.__struct_fields__}


def test_a_store_that_is_slower_than_that_anyway_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, write = Slow(monkeypatch), checkpoint.write

    def takes_long(*arguments: Any) -> int:
        slow.clock.advance(30.0)
        return write(*arguments)

    monkeypatch.setattr(checkpoint, "write", takes_long)
    slow.train(tmp_path, epochs=1, checkpoint_write_seconds=20.0)
    assert [e["seconds"] for e in events(tmp_path, "saved")] == [30.0]


def test_a_run_that_goes_on_still_knows_what_its_checkpoint_has_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, options = Slow(monkeypatch), {"epochs": 2, "checkpoint_steps": 4, "checkpoint_write_seconds": 5.0}
    made = job(tmp_path, clock=slow.clock, **options)
    stop_at(made, 6)
    with pytest.raises(Crash):
        train(made)
    done = slow.train(tmp_path, **options)
    assert done.resumed_from == 4
    assert [(e["step"], e["seconds"]) for e in events(tmp_path, "saved")] == [(4, 5.0), (8, 5.0), (12, 5.0), (12, 5.0)]
    kinds = [e["event"] for kind in ("checkpoint", "saved", "resume") for e in events(tmp_path, kind)]
    assert kinds.count("resume") == 1


def test_what_another_word_follows_is_cut_off_as_before(tmp_path: Path) -> None:
    """The run was killed after the checkpoint and before the word of what it cost."""
    made = job(tmp_path, epochs=2, checkpoint_steps=4)
    stop_at(made, 6)
    with pytest.raises(Crash):
        train(made)
    file = tmp_path / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(one for one in lines if '"saved"' not in one))
    assert train(job(tmp_path, epochs=2)).resumed_from == 4
    assert [e["step"] for e in events(tmp_path, "step")] == list(range(12))
