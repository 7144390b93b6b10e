"""What a layer's code looked at is part of its key; what cannot be seen is said; a store of 0.1 opens and verifies."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.stack.build import Built, build
from laminar.stack.explain import explain
from laminar.stack.make import remake
from laminar.stack.plan import plan
from laminar.stack.read import read
from laminar.stack.rollback import rollback
from laminar.store.store import Store
from laminar.store.verify import verify

STACK = """\
[stack]
name = "seen"

[data.some]
source = "digits"
limit = 40

[[layer]]
name = "one"
model = "models:net"
data = "some"
train = { epochs = 1, batch = 16, seed = 0, threads = 1 }
"""
READS = """\
from pathlib import Path

from torch import nn


def net(classes):
    width = int(Path("{file}").read_text())
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("laminar.toml", STACK)
        self.write("models.py", READS.format(file=root / "w.txt"))
        self.write("w.txt", "4")

    @property
    def store(self) -> Store:
        return Store.open(self.root / ".laminar")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def build(self, *, force: bool = False) -> Built:
        return build(read(self.root / "laminar.toml"), self.store, force=force).layers[-1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_file_that_a_factory_reads_counts_by_content(project: Project) -> None:
    four = project.build()
    project.write("w.txt", "8")
    assert plan(read(project.root / "laminar.toml"), project.store)[0].why == "w.txt, which its code reads, changed"
    eight = project.build()
    assert (eight.action, eight.id != four.id) == ("built", True)
    project.write("w.txt", "4")
    again = project.build()
    assert (again.action, again.id, again.key) == ("cached", four.id, four.key)


def test_trails_are_found_in_the_records_when_the_memory_is_lost(project: Project) -> None:
    project.build()
    shutil.rmtree(project.root / ".laminar" / "fingerprints")
    assert project.build().action == "cached"
    project.write("w.txt", "8")
    shutil.rmtree(project.root / ".laminar" / "fingerprints")
    assert project.build().action == "built"


def test_a_layer_is_made_again_by_its_graph_when_what_its_code_read_is_another(project: Project) -> None:
    layer = project.store.layer(project.build().id)
    assert remake(project.store, layer, project.root)[1] == "code"
    project.write("w.txt", "8")
    model, route = remake(project.store, layer, project.root)
    assert route == "graph" and {tuple(p.shape) for p in model.parameters()} == {(4, 64), (4,), (10, 4), (10,)}


HIDDEN = """\
import sys
from torch import nn


def net(classes):
    width = sys.modules["hidden_input"].WIDTH
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Linear(4, classes, bias=width == 4))
"""


def test_an_unseen_input_is_told_from_a_training_that_does_not_repeat(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    hidden = types.ModuleType("hidden_input")
    hidden.WIDTH = 4  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hidden_input", hidden)
    project.write("models.py", HIDDEN)
    project.build()
    hidden.WIDTH = 8  # type: ignore[attr-defined]
    (note,) = [note for note in project.build(force=True).notes if note.startswith("the same inputs gave")]
    assert "its factory made another model, so it has an input that Laminar does not see" in note


PROGRAM = READS.replace('Path("{file}").read_text()', "subprocess.run(['cat', '{file}'], capture_output=True).stdout").replace(
    "from torch", "import subprocess\nfrom torch"
)


def test_what_cannot_be_seen_is_said_each_time_until_it_is_declared(project: Project) -> None:
    project.write("models.py", PROGRAM.format(file=project.root / "w.txt"))
    for action in ("built", "cached"):
        built = project.build()
        assert built.action == action
        assert [note for note in built.notes if note.startswith("warning: its code starts a program (cat)")]
    project.write("laminar.toml", STACK.replace('data = "some"\ntrain', 'data = "some"\nreads = ["*.txt"]\ntrain'))
    built = project.build()
    assert (built.action, [note for note in built.notes if "program" in note]) == ("built", [])
    project.write("w.txt", "8")
    assert project.build().action == "built"


DATA = """\
import sys
import numpy as np


def rows():
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    return x + np.float32(sys.modules["hidden_input"].WIDTH), np.arange(40) % 4
"""


def test_force_calls_a_data_function_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import sys
    import types

    hidden = types.ModuleType("hidden_input")
    hidden.WIDTH = 4  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hidden_input", hidden)
    project.write("laminar.toml", STACK.replace('source = "digits"\nlimit = 40', 'source = "python:mydata:rows"'))
    project.write("mydata.py", DATA)
    first = project.build()
    hidden.WIDTH = 8  # type: ignore[attr-defined]
    forced = project.build(force=True)
    assert forced.id != first.id and forced.key != first.key
    assert any("returned other data than before, though all it was seen to read is the same" in note for note in forced.notes)
    assert project.build().id == forced.id
    assert os.path.exists(project.root / "mydata.py")


LOADS = """\
import laminar
from torch import nn


def net(classes):
    teacher = laminar.load("zoo/teacher", "{root}")
    width = next(teacher.parameters()).shape[0]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))
"""


def test_a_layer_that_a_factory_loads_by_its_name_counts_by_its_id(project: Project) -> None:
    teachers = []
    for width in ("4", "8"):
        project.write("w.txt", width)
        teachers.append(project.build().id)
    project.write("models.py", LOADS.format(root=project.root))
    project.store.refs.move("zoo/teacher", teachers[0], why="test")
    first = project.build()
    project.store.refs.move("zoo/teacher", teachers[1], why="test")
    assert (project.build().action, project.build().action) == ("built", "cached")
    project.store.refs.move("zoo/teacher", teachers[0], why="test")
    assert (again := project.build()).action == "cached" and again.id == first.id


def test_explain_says_what_was_left_out(project: Project) -> None:
    project.build()
    project.write("models.py", "# why\n" + (project.root / "models.py").read_text())
    explained = explain(read(project.root / "laminar.toml"), project.store, "one")
    assert (explained.step.action, explained.left_out) == ("cached", ["models.py"])


def test_a_rollback_sets_back_the_order_of_args(project: Project) -> None:
    made = "*[nn.Linear(64, 64) if n == 'linear' else nn.ReLU() for n in parts]"
    project.write(
        "models.py",
        f"from torch import nn\n\n\ndef net(classes, parts):\n    return nn.Sequential(nn.Flatten(), {made}, nn.Linear(64, classes))\n",
    )
    texts = [
        STACK.replace('data = "some"\ntrain', f'data = "some"\nargs.parts = {parts}\ntrain')
        for parts in ("{ relu = 1, linear = 1 }", "{ linear = 1, relu = 1 }")
    ]
    ids = []
    for text in texts:
        project.write("laminar.toml", text)
        ids.append(project.build().id)
    assert ids[0] != ids[1]
    rollback(read(project.root / "laminar.toml"), project.store, "one", write=True)
    again = project.build()
    assert (again.action, again.id) == ("cached", ids[0])


def test_reads_are_for_functions_only(project: Project) -> None:
    project.write("laminar.toml", STACK.replace("limit = 40", 'limit = 40\nreads = ["a"]'))
    with pytest.raises(LaminarError, match="declares what a function reads") as caught:
        project.build()
    assert caught.value.code == "L109"


def test_a_store_of_0_1_opens_verifies_and_is_built_on(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).with_name("store_of_0_1.zip")) as archive:
        archive.extractall(tmp_path)
    store = Store.open(tmp_path / ".laminar")
    assert verify(store) == []
    old = {name: store.refs.get(f"old/{name}") for name in ("base", "head")}
    for id in old.values():
        assert id is not None
        model, _ = remake(store, store.layer(id), tmp_path)
        assert sum(p.numel() for p in model.parameters()) > 0
    report_of_build = build(read(tmp_path / "laminar.toml"), store)
    assert [layer.action for layer in report_of_build.layers] == ["built", "built"]  # keys changed once
    assert store.has_layer(old["base"] or "")
