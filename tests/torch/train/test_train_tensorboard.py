"""TensorBoard files: there for those who have it, and never a reason to fail."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from train_jobs import events, job, stop_at

from laminar.train import tensorboard
from laminar.train.loop import train

pytest.importorskip("tensorboard")


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        reader: Any = EventAccumulator(str(folder / "tensorboard"))
        reader.Reload()
        return {name: [(event.step, event.value) for event in reader.Scalars(name)] for name in reader.Tags()["scalars"]}


def test_curves_are_those_of_the_events(tmp_path: Path) -> None:
    threads = threading.active_count()
    train(job(tmp_path, tensorboard=True))
    assert threading.active_count() == threads
    found = curves(tmp_path)
    assert found.keys() == {"step/loss", "step/lr", "train/loss", "train/accuracy", "test/loss", "test/accuracy"}
    assert found["step/loss"] == [(e["step"], pytest.approx(e["loss"])) for e in events(tmp_path, "step")]
    assert found["test/loss"] == [(e["step"], pytest.approx(e["test"]["loss"])) for e in events(tmp_path, "epoch")]


def test_long_epochs_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "POINTS", 2)
    train(job(tmp_path, tensorboard=True, epochs=1))
    lost = [e["loss"] for e in events(tmp_path, "step")]
    assert curves(tmp_path)["step/loss"] == [(2, pytest.approx(sum(lost[:3]) / 3)), (5, pytest.approx(sum(lost[3:]) / 3))]


def test_a_resumed_run_tells_no_step_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files of one process and second are read in the order of names that end in a number: the 10th before the 9th.
    from tensorboard.summary.writer import event_file_writer

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    made = job(tmp_path, tensorboard=True)
    stop_at(made, 8, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(made)
    train(job(tmp_path, tensorboard=True))
    steps = [step for step, _ in curves(tmp_path)["test/loss"]]
    assert steps == [6, 12, 18]


def test_a_broken_library_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    done = train(job(tmp_path, tensorboard=True))
    assert done.metrics["accuracy"] > 0
    assert "no TensorBoard files" in done.notes[0]


def test_without_the_library_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard.importlib.util, "find_spec", lambda _: None)
    assert train(job(tmp_path, tensorboard=True)).notes == []
    assert not (tmp_path / "tensorboard").exists()
