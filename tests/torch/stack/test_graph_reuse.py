"""Graphs are traced once: a layer whose model is made alike takes the graph of an earlier one, proved; any doubt traces it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import laminar.model.graph as graph
from laminar.model.graph import Forms
from laminar.stack.build import build
from laminar.stack.read import read
from tests.conftest import Example, write_example
from tests.thinned import thinned


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each model that was traced."""
    import laminar.stack.keep as keep

    seen: list[str] = []

    def counted(model: Any, *args: Any, **more: Any) -> Forms:
        seen.append(type(model).__name__)
        return graph.export_forms(model, *args, **more)

    monkeypatch.setattr(keep, "export_forms", counted)
    return seen


def graph_of(example: Example, id: str) -> Any:
    manifest = example.store().layer(id)
    return manifest.graph, manifest.structure


def test_another_recipe_takes_the_graph_and_gives_the_id_of_a_build_from_zero(built: Example, traces: list[str], tmp_path: Path) -> None:
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    again = built.build()["head"]
    assert again.action == "built" and traces == []
    fresh = write_example(tmp_path / "fresh")
    fresh.toml.write_text(built.toml.read_text())
    first = fresh.build()["head"]
    assert len(traces) == 2
    assert first.id == again.id
    assert graph_of(fresh, first.id) == graph_of(built, again.id)


def test_a_seed_draws_other_weights_and_needs_no_other_graph(built: Example, traces: list[str]) -> None:
    built.edit("laminar.toml", "seed = 0", "seed = 3")
    assert built.actions() == {"strokes": "built", "head": "built"}
    assert traces == []


def test_a_forced_build_takes_the_graph_of_a_layer_that_is_named(built: Example, traces: list[str]) -> None:
    """As trials of an experiment are built: with another seed each, and without a ref."""
    like = built.store().refs.get("digits/head")
    for seed, named, traced in ((7, like, 0), (8, None, 1)):
        built.edit("laminar.toml", "lr = 0.01, seed = " + ("0" if seed == 7 else "7"), f"lr = 0.01, seed = {seed}")
        report = build(read(built.toml), built.store(), targets=["head"], force=True, named=False, like=named)
        assert report.layers[-1].action == "built" and len(traces) == traced
        assert graph_of(built, report.layers[-1].id) == graph_of(built, like)


def test_a_layer_with_the_model_of_its_parent_takes_its_graph(built: Example, traces: list[str]) -> None:
    built.edit("laminar.toml", 'replace = { head = "models:head" }\n', "")
    assert built.build()["head"].action == "built"
    assert traces == []


def test_also_from_the_graph_of_a_parent_without_its_code(built: Example, traces: list[str]) -> None:
    (built.root / "models.py").write_text(
        (built.root / "models.py").read_text().replace("class ConvNet", "class Other") + "\n\nConvNet = Other\n"
    )
    parent = built.store().refs.get("digits/strokes")
    text = built.toml.read_text()
    start = text.index("[[layer]]")
    second = text.index("[[layer]]", start + 1)
    built.toml.write_text(text[:start] + text[second:].replace('from = "strokes"', f'from = "{parent}"'))
    built.edit("laminar.toml", "lr = 0.01", "lr = 0.03")
    built.build()
    assert len(traces) == 1  # made another way than the head that was built by code
    built.edit("laminar.toml", "lr = 0.03", "lr = 0.02")
    assert built.build()["head"].action == "built"
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("models.py", "nn.Dropout(0.1), nn.Linear(old", "nn.Dropout(0.2), nn.Linear(old"),
        ("parts/activation.py", "nn.ReLU()", "nn.Tanh()"),
        ("laminar.toml", "classes = [1, 3, 5, 7, 9]", "classes = [1, 3, 5, 7]"),
        ("laminar.toml", "channels = [4, 8]", "channels = [4, 6]"),
    ],
)
def test_another_model_is_traced(built: Example, traces: list[str], name: str, old: str, new: str) -> None:
    built.edit(name, old, new)
    assert "built" in built.actions().values()
    assert traces


UNSAVED = {
    "an unsaved buffer": 'self.register_buffer("noise", torch.rand(1), persistent=False)',
    "a plain tensor": "self.noise = torch.rand(1)",
    "a number": "self.noise = float(torch.rand(1))",
}


@pytest.mark.parametrize("how", thinned(UNSAVED))
def test_what_was_drawn_and_is_not_saved_is_part_of_the_graph(example: Example, traces: list[str], how: str) -> None:
    example.edit("models.py", "from torch import nn", "import torch\nfrom torch import nn")
    example.edit("models.py", "        self.head =", f"        {UNSAVED[how]}\n        self.head =")
    example.edit("models.py", "return self.head(self.features(x))", "return self.head(self.features(x) + self.noise)")
    first = example.build("strokes")["strokes"]
    example.edit("laminar.toml", "lr = 0.01, seed = 0", "lr = 0.02, seed = 0")
    example.build("strokes")
    assert len(traces) == 1
    example.edit("laminar.toml", "lr = 0.02, seed = 0", "lr = 0.02, seed = 1")
    other = example.build("strokes")["strokes"]
    assert len(traces) == 2
    if how != "a plain tensor":  # one structure or two, the archives are not the same
        assert graph_of(example, first.id)[0] != graph_of(example, other.id)[0]


def test_what_cannot_be_looked_into_is_traced(example: Example, traces: list[str]) -> None:
    example.edit("models.py", "        self.head =", "        self.secret = lambda x: x * 2\n        self.head =")
    example.build("strokes")
    example.edit("laminar.toml", "lr = 0.01", "lr = 0.02")
    example.build("strokes")
    assert len(traces) == 2


def test_a_graph_that_does_something_else_is_not_taken(built: Example, traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where everything that is looked at is the same."""
    import laminar.stack.keep as keep

    monkeypatch.setattr(keep, "sight_of", lambda *_, **__: "the same for all")
    built.edit("models.py", "nn.Dropout(0.1), nn.Linear(channels", "nn.Identity(), nn.Linear(channels")
    built.build(force=True)
    assert len(traces) == 2
    built.edit(
        "models.py", "def head(old, classes):\n    return nn.Sequential(", "def head(old, classes):\n    return nn.Sequential(nn.Tanh(), "
    )
    built.edit("models.py", "nn.Tanh(), nn.Dropout(0.1), nn.Linear(old[1]", "nn.Tanh(), nn.Linear(old[1]")
    built.build()
    assert len(traces) == 3


def test_a_damaged_graph_is_traced(built: Example, traces: list[str]) -> None:
    store = built.store()
    path = store.objects.path(store.layer(store.refs.get("digits/head")).graph.train)
    path.chmod(0o644)
    path.write_bytes(b"oops")
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    assert built.build()["head"].action == "built"
    assert len(traces) == 1


def test_times_are_told_apart(built: Example) -> None:
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    found = built.build()
    head = found["head"]
    assert set(head.spent) == {"features", "training", "checkpoints", "keeping"}
    assert sum(seconds for part, seconds in head.spent.items() if part != "checkpoints") <= head.seconds  # which are a part of training
    assert found["strokes"].spent == {}
    assert built.store().layer(head.id).seconds == head.spent["training"]
