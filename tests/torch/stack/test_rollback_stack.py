"""Rollback and redo of a project: the ref and laminar.toml go back and forth together, and neither moves alone by a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.stack.as_written import data_as_written, layer_as_written
from laminar.stack.read import StackFile, read
from laminar.stack.rollback import redo, rollback
from laminar.store import records
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer

TEXT = """\
# A stack.
[stack]
name = "digits"

[data.odd]
source = "digits"
limit = 300

[[layer]]
name = "base"
model = "laminar:mlp"
data = "odd"
train = { epochs = 5 }

[[layer]]
name = "head"
from = "base"
data = "odd"
train = { epochs = 1, lr = 0.1 }   # quick
"""


class Project:
    """A laminar.toml and a store whose layers are made up: `build` keeps what the file says with a layer of its own."""

    def __init__(self, root: Path) -> None:
        self.path = root / "laminar.toml"
        self.path.write_text(TEXT)
        self.clock = FakeClock(1.0)
        self.store = Store.open(root / "store", clock=self.clock)

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def file(self) -> StackFile:
        return read(self.path)

    def edit(self, old: str, new: str) -> str:
        assert old in self.text
        self.path.write_text(self.text.replace(old, new))
        return self.text

    def build(self, seed: int, name: str = "head", parent: str | None = None, record: bool = True) -> str:
        """The layer of a seed is always the same one."""
        self.clock.advance(1.0)
        file = self.file
        tensors = {"w": np.full(4, seed, np.float32)}
        layer = sample_layer(self.store, name, seed=seed, tensors=tensors, parent=parent, clock=self.clock)
        if record:
            table = layer_as_written(file, name)
            known = self.store.record(layer.key)
            assert known is not None
            self.store.write_record(msgspec.structs.replace(known, spec=table, data=data_as_written(file, table["data"])))
        return layer.id

    def three(self) -> tuple[list[str], list[str]]:
        """Three heads, and the text of each."""
        ids, texts = [], []
        for seed, epochs in enumerate((1, 2, 3), 1):
            self.path.write_text(TEXT.replace("epochs = 1", f"epochs = {epochs}"))
            ids.append(self.build(seed))
            texts.append(self.text)
        return ids, texts

    def back(self, target: str, *, write: bool = False) -> str:
        self.clock.advance(1.0)
        return rollback(self.file, self.store, target, write=write).after

    def redo(self, name: str | None = None) -> str:
        self.clock.advance(1.0)
        return redo(self.file, self.store, name).after

    def saved(self) -> list[Path]:
        return sorted((self.store.root / "rollbacks").iterdir())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def fails(code: str, call: Any, *words: Any, **options: Any) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        call(*words, **options)
    assert caught.value.code == code, caught.value
    return caught.value


def test_redo_after_two_steps_back_and_a_write(project: Project) -> None:
    ids, texts = project.three()
    assert project.back("head~2", write=True) == ids[0]
    assert project.text == texts[0]
    (saved,) = project.saved()
    assert saved.stem.endswith("head-4")
    assert records.read(saved) is not None  # it carries a check
    assert project.redo() == ids[2]
    assert project.text == texts[2]
    assert project.saved() == []
    fails("L010", project.redo)


def test_writes_are_undone_one_by_one(project: Project) -> None:
    ids, texts = project.three()
    for place in (1, 0):
        assert project.back("head", write=True) == ids[place]
        assert project.text == texts[place]
    assert len(project.saved()) == 2
    for place in (1, 2):
        assert project.redo() == ids[place]
        assert project.text == texts[place]


def test_only_the_rollback_that_wrote_the_file_gives_it_back(project: Project) -> None:
    ids, texts = project.three()
    project.back("head", write=True)
    project.back("head")
    assert project.redo() == ids[1]
    assert project.text == texts[1]
    assert project.redo() == ids[2]
    assert project.text == texts[2]


def test_a_file_edited_since_is_left(project: Project) -> None:
    ids, _ = project.three()
    project.back("head", write=True)
    mine = project.edit("# quick", "# mine")
    moved = redo(project.file, project.store)
    assert moved.after == ids[2]
    assert "edited since" in moved.notes[0]
    assert project.text == mine
    assert project.saved() == []


def test_a_damaged_text_leaves_the_file_and_says_so(project: Project) -> None:
    ids, texts = project.three()
    project.back("head", write=True)
    project.saved()[0].write_bytes(b"{}")
    moved = redo(project.file, project.store)
    assert moved.after == ids[2]
    assert "corrupt" in moved.notes[0]
    assert project.text == texts[1]


def test_the_text_of_a_rollback_that_a_build_ended_is_not_used(project: Project) -> None:
    ids, texts = project.three()
    project.back("head", write=True)
    project.build(3)  # goes on from there
    fails("L010", project.redo)
    project.path.write_text(texts[2])
    assert project.back("head", write=True) == ids[1]
    assert [path.stem[-2:] for path in project.saved()] == ["-6"]  # the one of line 4 is of no use to anyone
    assert project.redo() == ids[2]
    assert project.text == texts[2]


def test_writing_what_the_ref_shows_already_can_be_undone(project: Project) -> None:
    ids, texts = project.three()
    project.back("head")
    assert project.back(f"head@{ids[1]}", write=True) == ids[1]
    assert project.text == texts[1]
    assert project.back(f"head@{ids[1]}", write=True) == ids[1]  # nothing to do
    assert len(project.store.refs.log("digits/head")) == 5
    assert project.redo() == ids[1]
    assert project.text == texts[2]
    assert project.redo() == ids[2]


def test_a_bare_redo_is_of_the_layer_rolled_back_last(project: Project) -> None:
    heads, _ = project.three()
    bases = [project.build(seed, "base") for seed in (11, 12)]
    project.back("head")
    project.back("base")
    project.back("head")
    refs = project.store.refs
    assert project.redo() == heads[1]
    assert project.redo() == bases[1]
    assert refs.get("digits/head") == heads[1]
    assert project.redo() == heads[2]
    fails("L010", project.redo)
    project.back("head")
    project.back("base")
    assert project.redo("head") == heads[2]
    fails("L010", project.redo, "head")
    assert project.redo() == bases[1]


def test_a_layer_that_is_not_in_the_file_cannot_be_written(project: Project) -> None:
    ids, _ = project.three()
    text = project.edit('name = "head"', 'name = "heads"')
    assert "'heads'" in str(fails("L006", project.back, "head", write=True))
    assert project.store.refs.get("digits/head") == ids[2]
    assert project.text == text
    assert project.back("head") == ids[1]  # the ref alone can


def test_a_layer_of_another_stack_cannot_be_written(project: Project) -> None:
    made = [sample_layer(project.store, stack="letters", seed=seed).id for seed in (1, 2)]
    fails("L006", project.back, "letters/head", write=True)
    assert project.store.refs.get("letters/head") == made[1]
    assert project.text == TEXT
    assert project.back("letters/head") == made[0]


def test_a_text_that_would_not_be_readable_moves_nothing(project: Project) -> None:
    ids, texts = project.three()
    record = next(r for r in project.store.records() if r.id == ids[1])
    project.store.write_record(msgspec.structs.replace(record, spec={**record.spec, "trian": 1}))
    fails("L003", project.back, "head", write=True)
    assert project.store.refs.get("digits/head") == ids[2]
    assert project.text == texts[2]
    assert project.saved() == []


def test_a_ref_that_cannot_move_leaves_the_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, texts = project.three()

    def full(*_: Any, **__: Any) -> int:
        raise LaminarError("L301", "no space left", hint="laminar gc")

    with monkeypatch.context() as patch:
        patch.setattr("laminar.store.refs.append_line", full)
        fails("L301", project.back, "head", write=True)
    assert project.text == texts[2]
    assert project.back("head") == ids[1]  # takes the number of the one that failed, but wrote nothing
    project.path.write_text(texts[1])
    assert project.redo() == ids[2]
    assert project.text == texts[1]


def test_a_layer_that_was_built_under_another_name(project: Project) -> None:
    """The layers and the data are renamed; the store knows the first by its old name."""
    below = project.build(9, "base")
    first = project.build(1, parent=below)
    project.edit('"base"', '"under"')
    project.edit('"head"', '"top"')
    project.edit("odd", "uneven")
    renamed = project.text
    project.store.refs.move("digits/under", below, "build (cached)")
    project.store.refs.move("digits/top", first, "build (cached)")
    changed = project.edit("epochs = 1", "epochs = 2")
    second = project.build(2, "top", parent=below)
    project.clock.advance(1.0)
    moved = rollback(project.file, project.store, "top", write=True)
    assert (moved.before, moved.after) == (second, first)
    assert "digits/head" in moved.notes[0]
    assert project.text == renamed
    assert project.redo() == second
    assert project.text == changed


def test_data_that_is_gone_comes_with_a_layer_of_another_name(project: Project) -> None:
    first = project.build(1)
    project.edit('"head"', '"top"')
    project.store.refs.move("digits/top", first, "build (cached)")
    project.edit("odd", "uneven")
    project.edit("limit = 300", "limit = 200")
    project.build(2, "top")
    project.back("top", write=True)
    spec = project.file.spec
    assert (spec.layer[1].name, spec.layer[1].data) == ("top", "odd")
    assert {name: data.limit for name, data in spec.data.items()} == {"uneven": 200, "odd": 300}


def test_a_layer_nobody_wrote_down_moves_alone(project: Project) -> None:
    """Imported: there is a record, but it holds no settings."""
    first = project.build(1, record=False)
    project.build(2)
    moved = rollback(project.file, project.store, "head", write=True)
    assert (moved.after, moved.wrote) == (first, [])
    assert "does not know" in moved.notes[0]
    assert project.text == TEXT


def test_a_password_is_not_in_the_record_and_not_lost_by_going_back(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.edit('source = "digits"', 'source = "folder:x"\nmirrors = ["ftp://me:geheim@host/x", "https://host/x?token=geheim"]')
    project.build(1)
    before = project.edit("epochs = 1", "epochs = 2")
    project.build(2)
    kept = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(b"ftp://me:***@host/x" in data and b"https://host/x?token=***" in data for data in kept)
    assert not any(b"geheim" in data for data in kept)
    project.back("head", write=True)
    assert project.text == before.replace("epochs = 2", "epochs = 1")
