"""Checkpoints on disk: whole or absent, whatever is torn, flipped, missing or killed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from train_jobs import Crash, job, same_bits, stop_at, tensors

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.train import checkpoint
from laminar.train.loop import train


def write(folder: Path, step: int) -> None:
    checkpoint.write(folder, step, {"a": torch.full((3,), float(step))}, {"step": step})


def found(folder: Path) -> tuple[int | None, list[str]]:
    saved, notes = checkpoint.newest(folder)
    if saved is not None:
        assert torch.equal(saved.tensors["a"], torch.full((3,), float(saved.state["step"])))
    return (None if saved is None else saved.state["step"]), notes


def newest_file(folder: Path) -> Path:
    entry = json.loads((folder / checkpoint.POINTER).read_bytes())["checkpoints"][0]
    return folder / str(entry["file"])


def test_an_empty_folder(tmp_path: Path) -> None:
    assert found(tmp_path) == (None, [])
    assert found(tmp_path / "missing") == (None, [])


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step)
    assert found(tmp_path) == (4, [])
    assert len(list(tmp_path.glob("checkpoint-*.safetensors"))) == 2
    checkpoint.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["torn", "flipped", "missing", "empty"])
def test_damage_falls_back_to_the_one_before_and_then_to_the_start(damage: str, tmp_path: Path) -> None:
    def harm(file: Path) -> None:
        data = bytearray(file.read_bytes())
        if damage == "missing":
            file.unlink()
        elif damage == "flipped":
            data[-2] ^= 4
            file.write_bytes(data)
        else:
            file.write_bytes(data[: len(data) // 2] if damage == "torn" else b"")

    write(tmp_path, 1)
    first = newest_file(tmp_path)
    write(tmp_path, 2)
    second = newest_file(tmp_path)
    harm(second)
    step, notes = found(tmp_path)
    assert step == 1
    assert len(notes) == 1
    assert second.name in notes[0]
    assert "the one before it is used" in notes[0]
    harm(first)
    step, notes = found(tmp_path)
    assert step is None
    assert "starts from its beginning" in notes[1]
    write(tmp_path, 5)  # and the run goes on keeping checkpoints
    assert found(tmp_path) == (5, [])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"format":1}', b'{"format":9,"checkpoints":[],"check":""}'])
def test_a_damaged_pointer_is_a_start_from_zero_with_a_note(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / checkpoint.POINTER).write_bytes(content)
    step, notes = found(tmp_path)
    assert step is None
    assert checkpoint.POINTER in notes[0]
    write(tmp_path, 2)
    assert found(tmp_path) == (2, [])


def test_a_pointer_changed_by_one_bit_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    path = tmp_path / checkpoint.POINTER
    path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":3'))
    assert found(tmp_path)[0] is None


@pytest.mark.parametrize("nth", range(2))
@pytest.mark.parametrize("before", [True, False])
def test_a_failure_at_any_write_leaves_the_checkpoint_before(
    nth: int, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are written, by temp + rename each. Dying at the side of either rename leaves a pointer to whole files."""
    write(tmp_path, 1)
    real, calls = atomic.os.replace, 0

    def failing(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if not before:
            real(*args)
        if calls == nth + 1:
            raise Crash
        if before:
            real(*args)

    monkeypatch.setattr(atomic.os, "replace", failing)
    with pytest.raises(Crash):
        write(tmp_path, 2)
    monkeypatch.undo()
    assert found(tmp_path) == (2 if (nth, before) == (1, False) else 1, [])
    write(tmp_path, 3)
    assert found(tmp_path) == (3, [])
    assert len(list(tmp_path.glob("checkpoint-*.safetensors"))) == 2  # what the failed write left is gone


def test_a_full_disk_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(LaminarError) as caught:
        write(tmp_path, 1)
    assert caught.value.code == "L301"
    assert list(tmp_path.iterdir()) == []


def test_a_torn_checkpoint_costs_steps_and_no_bits(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole")
    train(whole)
    broken = job(tmp_path / "broken", checkpoint_steps=4)
    stop_at(broken, 10)
    with pytest.raises(Crash):
        train(broken)
    newest_file(tmp_path / "broken").write_bytes(b"half")
    again = job(tmp_path / "broken")
    done = train(again)
    assert done.resumed_from == 4
    assert "unreadable" in done.notes[0]
    assert same_bits(tensors(whole), tensors(again))
    assert (tmp_path / "broken" / "events.jsonl").read_text().count('"event":"step"') == 18


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("unpickled")

    broken = job(tmp_path)
    stop_at(broken, 3, how="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        train(broken)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert train(job(tmp_path)).resumed_from == 4


def test_tensors_that_are_not_contiguous_or_empty(tmp_path: Path) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T
    checkpoint.write(tmp_path, 1, {"t": tensor, "none": torch.empty(0, 3), "one": torch.tensor(2)}, {})
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is not None
    assert torch.equal(saved.tensors["t"], tensor)
    assert saved.tensors["none"].shape == (0, 3)
    assert saved.tensors["one"] == 2


def test_every_kind_of_number_can_be_kept(tmp_path: Path) -> None:
    kinds = [torch.uint16, torch.uint64, torch.int8, torch.bfloat16, torch.float64, torch.bool, torch.float8_e5m2]
    tensors = {str(kind): torch.ones(3).to(kind) for kind in kinds}
    checkpoint.write(tmp_path, 1, tensors, {})
    saved, _ = checkpoint.newest(tmp_path)
    assert saved is not None
    for name, tensor in tensors.items():
        assert saved.tensors[name].dtype == tensor.dtype
        assert torch.equal(saved.tensors[name].float(), tensor.float())
    with safe_open(tmp_path / saved.file, "pt") as file:  # as the library reads it
        assert torch.equal(file.get_tensor("torch.uint16").float(), torch.ones(3))
