"""Imports of graphs and exports of foreign layers: whatever has to run of them runs in a child, and gives what it gave here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.model.graph import export_forms, load_forms
from laminar.model.graph_module import GraphModel
from laminar.model.portable import export_file, import_file
from laminar.stack import foreign, foreign_frames
from laminar.stack.files import export_layer, import_layer
from laminar.stack.foreign import ForeignModel, allowed, is_foreign
from laminar.store.store import Store
from tests.conftest import Example

SHAPE = (1, 4, 4)


def written(folder: Path, model: nn.Module | None = None) -> Path:
    path = folder / "model.pt2"
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    export_file(model.eval(), path, example=torch.zeros(2, *SHAPE))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def nothing_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a foreign graph runs in this process")

    monkeypatch.setattr(GraphModel, "forward", refuse)


def imported(store: Store, path: Path, **given: Any) -> str:
    return import_layer(store, path, name="zoo/net", root=path.parent, shape="1,4,4", **given)


def test_an_import_runs_nothing_here_and_gives_the_graph_it_gave(tmp_path: Path, store: Store, request: pytest.FixtureRequest) -> None:
    path = written(tmp_path)
    found = import_file(path)
    assert found.forms is not None
    model = load_forms(found.forms.train, found.forms.eval, found.tensors, found.aliases)
    here = export_forms(model, torch.zeros(2, *SHAPE))
    request.getfixturevalue("nothing_runs_here")
    manifest = store.layer(imported(store, path))
    assert manifest.graph.train is not None and manifest.graph.eval is not None
    assert (store.objects.read(manifest.graph.train), store.objects.read(manifest.graph.eval)) == (here.train, here.eval)
    assert manifest.structure == here.structure and manifest.classes == ["0", "1", "2"]


class Flat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum((1, 2, 3))


def test_a_file_that_does_not_fit_is_told_as_before(tmp_path: Path, store: Store) -> None:
    with pytest.raises(LaminarError, match=r"samples of shape \(1, 9, 9\).* do not fit the model") as caught:
        import_layer(store, written(tmp_path), name="zoo/net", root=tmp_path, shape="1,9,9")
    assert caught.value.code == "L204"
    with pytest.raises(LaminarError, match="gives 3 outputs, but 2 classes") as caught:
        imported(store, written(tmp_path), classes=["a", "b"])
    assert caught.value.code == "L204"
    with pytest.raises(LaminarError, match=r"makes \[2\] of a batch of 2 samples") as caught:
        imported(store, written(tmp_path, Flat()))
    assert caught.value.code == "L204"


@pytest.mark.parametrize(
    ("head", "archives"),
    [({"train": 4, "note": ""}, 4), ({"train": 9, "note": ""}, 4), ({"train": "4"}, 4), ({}, 0), ({"train": -1}, 4), ({"train": 4}, 400)],
)
def test_a_child_that_lies_about_a_graph_is_not_believed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, head: dict[str, Any], archives: int
) -> None:
    """A stand-in for one that the graph's author has taken over."""
    answer = b"".join(foreign_frames.pack(head, torch.zeros(archives, dtype=torch.uint8)))
    path, plain = written(tmp_path), ForeignModel.graph

    def graph(self: ForeignModel, example: Tensor) -> tuple[bytes, bytes, str]:
        self._process.kill()
        self._process.wait()
        script = f"import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); sys.stdin.buffer.read()"
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        return plain(self, example)

    monkeypatch.setattr(ForeignModel, "graph", graph)
    with pytest.raises(LaminarError, match=r"model\.pt2 was made elsewhere") as caught:
        imported(store, path)
    assert caught.value.code == "L210" and store.layers() == []


@pytest.mark.usefixtures("nothing_runs_here")
def test_a_foreign_layer_is_exported_in_the_child(tmp_path: Path, store: Store) -> None:
    id = imported(store, written(tmp_path))
    assert is_foreign(store, store.layer(id))
    target = tmp_path / "new" / "again.pt2"
    export_layer(store, id, target, None)
    assert [path.name for path in target.parent.iterdir()] == ["again.pt2"]
    program = torch.export.load(target)
    x = torch.rand(5, *SHAPE)
    with torch.no_grad():
        assert torch.equal(program.module()(x), torch.export.load(tmp_path / "model.pt2").module()(x))
    assert imported(store, target) == id  # with its note of classes
    export_layer(store, id, tmp_path / "weights.safetensors", None)  # nothing of it runs
    assert (tmp_path / "weights.safetensors").exists()


def test_an_export_that_fails_in_the_child_leaves_nothing(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = imported(store, written(tmp_path))
    target = tmp_path / "new" / "again.pt2"
    with pytest.raises(LaminarError) as caught:
        export_layer(store, id, target.with_suffix(".txt"), None)
    assert caught.value.code == "L008"

    def links(self: ForeignModel, example: Tensor, name: str, metadata: Mapping[str, str]) -> None:
        (next(target.parent.iterdir()) / name).symlink_to("/etc/passwd")

    monkeypatch.setattr(ForeignModel, "export", links)
    with pytest.raises(LaminarError, match="something else than a file") as caught:
        export_layer(store, id, target, None)
    assert caught.value.code == "L210" and list(target.parent.iterdir()) == []


def test_an_export_of_an_own_layer_stays_here(built: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign.ForeignModel, "__init__", None)
    store = built.store()
    export_layer(store, str(store.refs.get("digits/head")), tmp_path / "head.pt2", built.root)
    assert (tmp_path / "head.pt2").exists()


def test_what_the_child_may_map_goes_by_the_memory_there_is_and_leaves_room_for_stacks() -> None:
    assert allowed(None, 4) is None
    assert allowed(1 << 30, 1) == 3 * (1 << 28) + 2 * foreign.STACK
    assert allowed(1 << 30, 64) == 3 * (1 << 28) + 128 * foreign.STACK


@pytest.mark.slow  # its exporter is loaded in a new process
@pytest.mark.usefixtures("nothing_runs_here")
def test_also_to_onnx(tmp_path: Path, store: Store) -> None:
    """Its exporter loads much, and writes into folders for temporary files."""
    pytest.importorskip("onnxscript")
    target = tmp_path / "net.onnx"
    export_layer(store, imported(store, written(tmp_path)), target, None)
    onnx = pytest.importorskip("onnx")
    assert [node.op_type for node in onnx.load(target).graph.node][-1] == "Gemm"
