"""Building: what changed is trained, what did not is reused, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import laminar
from laminar.core.errors import LaminarError
from laminar.stack.diagnose import why_other
from laminar.store.manifest import BuildRecord
from tests.conftest import Example, write_example


def test_the_second_build_reuses_everything(built: Example) -> None:
    again = built.build()
    assert {name: b.action for name, b in again.items()} == {"strokes": "cached", "head": "cached"}
    assert again["strokes"].saved > 0


def test_a_build_from_zero_gives_the_same_ids(built: Example, tmp_path: Path) -> None:
    first = {name: b.id for name, b in built.build().items()}
    other = write_example(tmp_path / "elsewhere")
    assert {name: b.id for name, b in other.build().items()} == first


def test_only_the_top_is_trained_when_only_the_top_changed(built: Example) -> None:
    built.edit("laminar.toml", "seed = 0, threads = 1 }   # quick", "seed = 1, threads = 1 }")
    found = built.build()
    assert found["strokes"].action == "cached"
    assert found["head"].action == "built"
    assert "train.seed 0 -> 1" in found["head"].why


def test_a_change_below_trains_what_stands_on_it(built: Example) -> None:
    built.edit("laminar.toml", "epochs = 2", "epochs = 1")
    assert built.actions() == {"strokes": "built", "head": "built"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("laminar.toml", "# A small stack.", "# Another comment."),
        ("models.py", "from torch import nn\n", "from torch import nn\n# a comment\n"),
        ("laminar.toml", "lr = 0.01", "lr = 1e-2"),
        ("laminar.toml", "threads = 1", "threads = 2"),
        ("laminar.toml", "[data.even]", "[data.unused]\nsource = 'digits'\n\n[data.even]"),
    ],
)
def test_what_does_not_matter_trains_nothing(built: Example, name: str, old: str, new: str) -> None:
    built.edit(name, old, new)
    (built.root / "unrelated.py").write_text("x = 1\n")
    assert set(built.actions().values()) == {"cached"}


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        # a helper two imports away from the factory of the bottom layer
        ("parts/activation.py", "nn.ReLU()", "nn.Tanh()", {"strokes": "build", "head": "build"}),
        ("laminar.toml", "limit = 300\n\n[data.odd]", "limit = 290\n\n[data.odd]", {"strokes": "build", "head": "build"}),
        # the last of several inputs
        ("laminar.toml", "limit = 300\n\n[[layer]]", "limit = 290\n\n[[layer]]", {"strokes": "cached", "head": "build"}),
        ("models.py", "nn.Dropout(0.1), nn.Linear(old", "nn.Dropout(0.2), nn.Linear(old", {"strokes": "cached", "head": "build"}),
        ("laminar.toml", 'freeze = ["features"]', 'freeze = ["features.0"]', {"strokes": "cached", "head": "build"}),
        ("laminar.toml", 'replace = { head = "models:head" }', "", {"strokes": "cached", "head": "build"}),
        ("laminar.toml", "[1, 3, 5, 7, 9]", "[9, 3, 5, 7, 1]", {"strokes": "cached", "head": "build"}),
    ],
)
def test_what_matters_is_in_the_key(built: Example, name: str, old: str, new: str, expected: dict[str, str]) -> None:
    built.edit(name, old, new)
    assert {s.layer.name: s.action for s in laminar.Stack.load(built.toml).status()} == expected


def test_an_equal_parent_stops_the_cascade(built: Example) -> None:
    before = built.build()
    built.edit("parts/blocks.py", "def block(a, b):\n    return", "def block(a, b):\n    made =")
    built.edit("parts/blocks.py", "nn.MaxPool2d(2))\n", "nn.MaxPool2d(2))\n    return made\n")
    after = built.build()
    assert after["strokes"].action == "built"
    assert after["strokes"].key != before["strokes"].key
    assert after["strokes"].id == before["strokes"].id
    assert after["head"].action == "cached"


def test_force_trains_again_and_gives_the_same(built: Example) -> None:
    before = built.build()
    again = built.build("head", force=True)
    assert {name: b.action for name, b in again.items()} == {"strokes": "cached", "head": "built"}
    assert again["head"].id == before["head"].id
    assert not any("does not repeat" in note for note in again["head"].notes)


def test_another_strategy_explains_another_layer_of_the_same_inputs() -> None:
    def record(id: str, strategy: str) -> BuildRecord:
        return BuildRecord(
            key="0" * 64,
            id=id * 64,
            inputs={},
            stack="digits",
            name="head",
            spec={},
            data=None,
            metrics={},
            seconds=0.0,
            created=0.0,
            run="",
            provenance={"strategy": strategy},
        )

    alone, sync = record("a", "one process"), record("b", "sync, 2 workers")
    assert why_other(alone, sync).endswith(
        "it was trained by one process then and by sync, 2 workers now, which add the same numbers in another order"
    )
    assert why_other(alone, record("c", "one process")).endswith("this training does not repeat exactly")


def test_frozen_tensors_are_those_of_the_parent(built: Example) -> None:
    found = built.build()
    store = built.store()
    parent, child = store.layer(found["strokes"].id), store.layer(found["head"].id)
    frozen = [name for name in child.tensors if name.startswith("features.")]
    assert any("running_mean" in name for name in frozen)
    assert all(child.tensors[name] == parent.tensors[name] for name in frozen)
    assert child.tensors["head.1.weight"] != parent.tensors["head.1.weight"]


def test_kept_features_change_nothing(built: Example) -> None:
    built.edit("laminar.toml", "threads = 1 }   # quick", 'threads = 1, keep_features = "always" }')
    always = built.build("head", force=True)["head"]
    assert "features kept" in always.features
    built.edit("laminar.toml", 'keep_features = "always"', 'keep_features = "never"')
    never = built.build("head", force=True)["head"]
    assert "never" in never.features
    a, b = (laminar.load(built_.id, built.root).state_dict() for built_ in (always, never))
    for name in a:
        assert torch.allclose(a[name], b[name], atol=1e-6, rtol=0), name


def test_load_gives_the_model_in_eval_mode(built: Example) -> None:
    model = laminar.load("digits/head", built.root)
    assert not model.training
    x = torch.rand(3, 1, 8, 8)
    assert model(x).shape == (3, 5)
    assert torch.equal(model(x), model(x))
    assert set(model.state_dict()) >= {"features.0.0.weight", "head.1.weight"}
    with pytest.raises(LaminarError) as caught:
        laminar.load("digits/haed", built.root)
    assert caught.value.code == "L006"
    assert "digits/head" in caught.value.message


def test_a_build_that_reuses_all_needs_no_torch(built: Example) -> None:
    program = (
        "import sys, laminar; r = laminar.Stack.load('laminar.toml').build(); assert len(r.reused) == 2; "
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", program], cwd=built.root, check=True)


def test_a_lost_object_is_trained_again(built: Example) -> None:
    found = built.build()
    store = built.store()
    digest = store.layer(found["head"].id).tensors["head.1.weight"].digest
    store.objects.path(digest).unlink()
    again = built.build()
    assert again["head"].action == "built"
    assert "lost" in again["head"].why
    assert again["head"].id == found["head"].id


def test_from_a_tag_an_id_and_another_stack(built: Example) -> None:
    found = built.build()
    built.store().refs.tag("base:v1", found["strokes"].id)
    for written in ("base:v1", found["strokes"].id, found["strokes"].id[:12], "digits/strokes"):
        text = (built.root / "laminar.toml").read_text()
        start = text.index('from = "')
        (built.root / "laminar.toml").write_text(text[:start] + f'from = "{written}"\n' + text[text.index("freeze") :])
        assert built.build("head")["head"].action == "cached", written
    built.edit("laminar.toml", 'from = "digits/strokes"', 'from = "base:v2"')
    with pytest.raises(LaminarError) as caught:
        built.build()
    assert caught.value.code == "L006"
    assert "base:v1" in caught.value.message
    assert "laminar.toml:" in caught.value.message


def test_a_model_of_its_own_takes_the_tensors_that_fit(built: Example) -> None:
    built.edit(
        "laminar.toml",
        'freeze = ["features"]            # stays as it is\nreplace = { head = "models:head" }\n',
        'model = "models:convnet"\nargs = { channels = [4, 8], classes = 5 }\n',
    )
    found = built.build()["head"]
    assert any("taken from strokes" in note for note in found.notes)
