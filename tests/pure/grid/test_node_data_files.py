"""Data of tasks as files of a node's home: whole or not at all, few, and no more than the owner allows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.data.dataset import Dataset, Split
from laminar.data.room import Room
from laminar.data.spec import DataSpec, SampleSpec
from laminar.grid.node import data_files
from laminar.grid.node.limits import ROOM


def data(seed: int = 0, *, classes: tuple[str, ...] | None = ("ä", "b")) -> Dataset:
    dice = np.random.default_rng(seed)

    def side(count: int) -> Split:
        y = dice.integers(0, 2, count) if classes is not None else dice.random((count, 2), dtype=np.float32)
        return Split(dice.integers(0, 256, (count, 1, 3, 3), dtype=np.uint8), y)

    return Dataset(side(100), side(10), classes)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("classes", [("ä", "b"), None])
def test_what_is_read_is_what_was_kept_and_cannot_be_changed(tmp_path: Path, classes: tuple[str, ...] | None) -> None:
    made = data(classes=classes)
    data_files.keep(tmp_path, "a", made, None)
    found = data_files.read(tmp_path / "a")
    assert found.classes == classes
    for old, new in ((made.train, found.train), (made.test, found.test)):
        assert np.array_equal(old.x, new.x) and old.x.dtype == new.x.dtype
        assert np.array_equal(old.y, new.y) and old.y.dtype == new.y.dtype
        assert type(new.x) is np.ndarray and not new.x.flags.writeable


def test_what_lies_in_files_already_is_kept_as_well(tmp_path: Path) -> None:
    room, made = Room(0, tmp_path), data()
    mapped = Split(room.take(made.train.x, np.arange(100)), made.train.y)
    (tmp_path / "opened").mkdir()
    data_files.keep(tmp_path / "opened", "a", Dataset(mapped, made.test, None), None)
    assert np.array_equal(data_files.read(tmp_path / "opened" / "a").train.x, made.train.x)


def test_each_description_has_its_name() -> None:
    specs = [
        DataSpec(source="digits"),
        DataSpec(source="mnist"),
        *(DataSpec(source="digits", sample=SampleSpec(per_class=2, seed=i)) for i in (1, 2)),
    ]
    assert len({data_files.name_of(spec) for spec in specs}) == len(specs)
    assert data_files.name_of(specs[0]) == data_files.name_of(DataSpec(source="digits"))


def test_what_breaks_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = data_files._write

    def breaks(path: Path, array: np.ndarray) -> None:
        if path.name == "test-x.npy":
            raise OSError("the disk is gone")
        plain(path, array)

    with monkeypatch.context() as patched:
        patched.setattr(data_files, "_write", breaks)
        with pytest.raises(OSError, match="is gone"):
            data_files.keep(tmp_path, "a", data(), None)
        assert names(tmp_path) == set()
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)  # a kill: nobody tidies up
        with pytest.raises(OSError, match="is gone"):
            data_files.keep(tmp_path, "a", data(), None)
    assert not (tmp_path / "a").exists() and names(tmp_path)
    data_files.keep(tmp_path, "a", data(), None)
    assert names(tmp_path) == {"a"} and len(data_files.read(tmp_path / "a").train) == 100


def test_those_that_were_used_longest_ago_go_first(tmp_path: Path) -> None:
    for i in range(data_files.KEPT):
        data_files.keep(tmp_path, str(i), data(i), None)
        os.utime(tmp_path / str(i), (100 + i, 100 + i))
    os.utime(tmp_path / "0")
    data_files.keep(tmp_path, "new", data(), None)
    assert names(tmp_path) == {"0", "2", "3", "new"}


def test_together_they_have_no_more_bytes_than_the_owner_allows(tmp_path: Path) -> None:
    size = data_files._size(data())
    for i in range(3):
        data_files.keep(tmp_path, str(i), data(i), None)
        os.utime(tmp_path / str(i), (100 + i, 100 + i))
    data_files.keep(tmp_path, "new", data(), 3 * size)  # the headers of files count, too
    assert names(tmp_path) == {"2", "new"}
    with pytest.raises(MemoryError):
        data_files.keep(tmp_path, "large", data(), size - 1)
    assert names(tmp_path) == {"2", "new"}


def test_a_disk_that_would_be_full_is_said_to_be_full_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = SimpleNamespace(free=ROOM + data_files._size(data()) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(LaminarError) as caught, explaining_os_errors(tmp_path):
        data_files.keep(tmp_path, "a", data(), None)
    assert caught.value.code == "L301" and names(tmp_path) == set()
    free.free += 1
    data_files.keep(tmp_path, "a", data(), None)
    assert names(tmp_path) == {"a"}


def test_what_cannot_be_deleted_now_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows, while the process that computes has it mapped."""

    def in_use(*_: object) -> None:
        raise PermissionError

    data_files.keep(tmp_path, "a", data(), None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", in_use)
        data_files.drop(tmp_path / "a")
    assert len(data_files.read(tmp_path / "a").test) == 10
    data_files.drop(tmp_path / "a")
    assert names(tmp_path) == set()
