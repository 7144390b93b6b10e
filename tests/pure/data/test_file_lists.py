"""Lists of files by content: what changed between two contents, file by file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data_makers import write_images

from laminar.data import file_lists
from laminar.data.fingerprint import fingerprint
from laminar.data.remember import Memory
from laminar.data.spec import DataSpec


def content(root: Path) -> str:
    return str(fingerprint(DataSpec(source="folder:pets"), root, root / "cache")["content"])


@pytest.mark.parametrize("sides", [("",), ("train/", "test/")])
def test_what_came_went_or_has_other_bytes(tmp_path: Path, sides: tuple[str, ...]) -> None:
    for side in sides:
        write_images(tmp_path / "pets" / side)
    before, memory = content(tmp_path), Memory(tmp_path / "cache")
    assert file_lists.changed(memory, before, before) == []
    last = tmp_path / "pets" / sides[-1]
    (last / "cat/0.png").write_bytes((last / "cat/1.png").read_bytes())
    (last / "dog/2.png").unlink()
    (last / "eel/9.png").write_bytes((last / "eel/4.png").read_bytes())
    os.utime(last / "cat/2.png")
    now = content(tmp_path)
    assert file_lists.changed(memory, before, now) == [f"{sides[-1]}{name}" for name in ("cat/0.png", "dog/2.png", "eel/9.png")]
    assert file_lists.changed(memory, now, before) == file_lists.changed(memory, before, now)
    assert file_lists.changed(memory, before, "0" * 64) is None


def test_only_the_newest_lists_are_kept(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    for number in range(file_lists.KEPT + 3):
        file_lists.keep(memory, f"{number:064}", [("a", f"{number}")])
        os.utime(tmp_path / f"files-{number:064}.json", ns=(number, number))
    assert len(list(tmp_path.iterdir())) == file_lists.KEPT
    assert file_lists.changed(memory, f"{2:064}", f"{5:064}") is None
    assert file_lists.changed(memory, f"{4:064}", f"{5:064}") == ["a"]
