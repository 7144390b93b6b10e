"""Every verb as a user meets it, and the documented JSON of each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conftest import Example, cli


def out(example: Example, *words: str, cold: bool = False) -> Any:
    return json.loads(example.cli(*words, "--json", cold=cold).stdout)


def test_build_and_status_have_the_documented_shape(example: Example) -> None:
    before = out(example, "status")
    assert [(layer["name"], layer["action"]) for layer in before["layers"]] == [("strokes", "build"), ("head", "build")]
    assert before["layers"][0]["why"] == "never built"
    dry = out(example, "build", "--dry-run")
    assert [layer["action"] for layer in dry["layers"]] == ["build", "build"]
    found = out(example, "build", cold=True)
    assert found["stack"] == "digits"
    for layer in found["layers"]:
        assert {"name", "id", "key", "action", "why", "seconds", "metrics"} <= set(layer)
        assert layer["action"] == "built"
        assert len(layer["id"]) == len(layer["key"]) == 64
        assert {"loss", "accuracy", "samples_per_second"} <= set(layer["metrics"])
        assert 0 <= layer["metrics"]["accuracy"] <= 1
    after = out(example, "status")
    assert [(layer["id"], layer["action"]) for layer in after["layers"]] == [(layer["id"], "cached") for layer in found["layers"]]
    assert "nothing to build" in example.cli("status").stdout
    text = example.cli("build").stdout
    assert "2 layers reused" in text


def test_a_batch_above_the_samples_is_told(example: Example) -> None:
    """By status and build, trained or reused; the key stays what was written."""
    example.edit("laminar.toml", "batch = 64", "batch = 4096")
    told = "batch is 4,096, but data.even has no more than 300 training samples: every step takes all of them, as with batch = 300"
    assert f"strokes: {told}" in example.cli("status").stdout
    assert [layer["notes"] for layer in out(example, "status")["layers"]] == [[told], []]
    for action in ("built", "cached"):
        (layer,) = out(example, "build", "strokes")["layers"]
        assert (layer["action"], layer["notes"][-1:]) == (action, [told])
    assert f"strokes: {told}" in example.cli("build", "strokes", "--dry-run").stdout


def test_explain_names_what_changed_from_what_to_what(built: Example) -> None:
    assert out(built, "explain", "head")["action"] == "cached"
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    found = out(built, "explain", "head")
    assert found["action"] == "build"
    assert [(c["from"], c["to"]) for c in found["changes"]] == [(0.01, 0.02)]
    assert found["changes"][0]["input"].endswith("lr")
    assert found["inputs"]["parent"]
    text = built.cli("explain", "head").stdout
    assert "0.01" in text
    assert "0.02" in text


def test_rollback_redo_and_write_keep_comments(built: Example) -> None:
    original = built.toml.read_text()
    first = out(built, "show", "head")["id"]
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }   # quick")
    built.edit("laminar.toml", "limit = 300\n\n[[layer]]", "limit = 290\n\n[[layer]]")
    changed = built.toml.read_text()
    built.cli("build")
    second = out(built, "show", "head")["id"]
    assert second != first
    moved = out(built, "rollback", "head")
    assert (moved["from"], moved["to"]) == (second, first)
    assert built.toml.read_text() == changed
    assert out(built, "redo")["to"] == second
    moved = out(built, "rollback", "head", "--write")
    assert moved["wrote"]
    assert built.toml.read_text() == original
    assert {layer["action"] for layer in out(built, "build")["layers"]} == {"cached"}
    assert out(built, "show", "head")["id"] == first
    assert out(built, "redo")["to"] == second
    assert built.toml.read_text() == changed
    assert out(built, "rollback", first[:10])["to"] == first
    assert out(built, "show", "head~0")["id"] == first
    ops = [entry["op"] for entry in out(built, "log", "head")["entries"]]
    assert ops.count("rollback") == 3


def test_diff_shows_inputs_tensors_and_metrics(built: Example) -> None:
    built.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    built.cli("build")
    found = out(built, "diff", "head~1", "head")
    assert [c["input"] for c in found["inputs"]] == ["train.optimizer.lr"]
    assert {t["name"] for t in found["tensors"]} == {"head.1.weight", "head.1.bias"}
    assert all(t["moved"] > 0 for t in found["tensors"])
    assert found["equal_tensors"] > 5
    assert "accuracy" in found["metrics"]
    assert "are equal" in built.cli("diff", "head", "head").stdout


def test_tag_show_log(built: Example) -> None:
    built.cli("tag", "head", "champion:v1")
    id = out(built, "show", "champion:v1")["id"]
    assert out(built, "tag")["tags"] == [{"name": "champion:v1", "id": id}]
    shown = out(built, "show", "head")
    assert shown["tags"] == ["champion:v1"]
    assert [a["name"] for a in shown["ancestors"]] == ["strokes"]
    own = {t["name"] for t in shown["tensors"] if t["own"]}
    assert own == {"head.1.weight", "head.1.bias"}
    assert "features.0.0.weight" in built.cli("show", "head").stdout
    assert "digits/head" in built.cli("log").stdout


def test_evaluate_and_predict(built: Example, tmp_path: Path) -> None:
    found = out(built, "evaluate", "head", "--data", "odd", cold=True)
    assert found["metrics"]["accuracy"] == pytest.approx(out(built, "show", "head")["metrics"]["accuracy"])
    by_source = out(built, "evaluate", "head", "--data", "digits")
    assert by_source["samples"] > found["samples"]
    Image.fromarray(np.full((20, 20), 128, np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", np.zeros((2, 1, 8, 8), np.uint8))
    rows = out(built, "predict", "head", str(tmp_path / "a.png"), str(tmp_path / "b.npy"), cold=True)["predictions"]
    assert len(rows) == 3
    assert {row["class"] for row in rows} <= {"1", "3", "5", "7", "9"}
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)


def test_a_layer_pulled_without_code_is_used_and_built_upon(built: Example, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    built.cli("push", str(remote), "head")
    built.cli("push", str(remote), "strokes")
    metrics = out(built, "show", "head")["metrics"]
    id = out(built, "show", "strokes")["id"]
    empty = Example(tmp_path / "empty")
    empty.root.mkdir()
    empty.cli("pull", str(remote), "digits/head")
    assert out(empty, "evaluate", "digits/head", "--data", "digits")["metrics"]["accuracy"] > 0
    np.save(tmp_path / "b.npy", np.zeros((2, 1, 8, 8), np.uint8))
    assert len(out(empty, "predict", "digits/head", str(tmp_path / "b.npy"))["predictions"]) == 2
    assert out(empty, "show", "digits/head")["metrics"] == metrics
    # a new layer on a remote one: freeze by module path and a replaced head, without models.py
    empty.toml.write_text(
        f"""
[stack]
name = "mine"
[data.letters]
source = "glyphs"
args = {{ count = 200, size = 8, domain = "shapes" }}
[[layer]]
name = "shapes"
from = "{remote}#digits/strokes@sha256:{id}"
freeze = ["features"]
replace = {{ head = "laminar:head" }}
data = "letters"
train = {{ epochs = 1, batch = 64 }}
"""
    )
    found = out(empty, "build")["layers"][0]
    assert found["action"] == "built"
    shown = out(empty, "show", "shapes")
    assert shown["parent"] == id
    assert shown["provenance"]["model"] == "graph"
    assert shown["graph"]["train"]
    frozen = [t for t in shown["tensors"] if t["name"].startswith("features.")]
    assert frozen
    assert not any(t["own"] for t in frozen)
    # and that one is portable again
    shutil.rmtree(remote)
    empty.cli("push", str(tmp_path / "other"), "shapes")
    third = Example(tmp_path / "third")
    third.root.mkdir()
    third.cli("pull", str(tmp_path / "other"), "mine/shapes")
    np.save(tmp_path / "c.npy", np.zeros((1, 1, 8, 8), np.uint8))
    assert len(out(third, "predict", "mine/shapes", str(tmp_path / "c.npy"))["predictions"]) == 1


def test_a_model_that_cannot_be_exported_still_builds_with_a_note(example: Example) -> None:
    example.edit(
        "models.py",
        "        return self.head(self.features(x))",
        "        x = self.features(x)\n        if x.sum() > 1e9:\n            x = x * 2\n        return self.head(x)",
    )
    found = out(example, "build")
    assert all(layer["action"] == "built" for layer in found["layers"])
    assert any("models.py" in note for note in found["layers"][0]["notes"])
    assert out(example, "show", "head")["graph"]["eval"] is None
    assert out(example, "evaluate", "head", "--data", "odd")["metrics"]["accuracy"] > 0
    assert [layer["action"] for layer in out(example, "build")["layers"]] == ["cached", "cached"]


def test_export_and_import(built: Example, tmp_path: Path) -> None:
    import torch

    built.cli("export", "head", str(tmp_path / "head.safetensors"))
    built.cli("export", "head", str(tmp_path / "head.pt2"), cold=True)
    built.cli("export", "head", str(tmp_path / "head.onnx"))
    x = torch.rand(3, 1, 8, 8)
    import laminar

    wanted = laminar.load("digits/head", built.root)(x)
    program = torch.export.load(str(tmp_path / "head.pt2"))
    assert torch.allclose(program.module()(x), wanted, atol=1e-6)
    import onnxruntime

    session = onnxruntime.InferenceSession(str(tmp_path / "head.onnx"))
    (given,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert np.allclose(given, wanted.detach().numpy(), atol=1e-5)
    other = Example(tmp_path / "other")
    other.root.mkdir()
    other.cli("import", str(tmp_path / "head.pt2"), "--name", "zoo/head", cold=True)
    assert torch.allclose(laminar.load("zoo/head", other.root)(x), wanted, atol=1e-6)
    for name in ("models.py", "parts"):
        source = built.root / name
        shutil.copytree(source, other.root / name) if source.is_dir() else shutil.copy(source, other.root / name)
    other.cli(
        "import",
        str(tmp_path / "head.safetensors"),
        "--name",
        "zoo/weights",
        "--model",
        "models:convnet",
        "--args",
        "{ channels = [4, 8], classes = 5 }",
        "--input",
        "1,8,8",
    )
    assert torch.allclose(laminar.load("zoo/weights", other.root)(x), wanted, atol=1e-6)


def test_verify_gc_doctor_report(built: Example) -> None:
    assert out(built, "verify")["findings"] == []
    assert out(built, "gc", "--dry-run")["removed"] is False
    out(built, "gc")
    assert {layer["action"] for layer in out(built, "build")["layers"]} == {"cached"}
    found = out(built, "doctor", cold=True)
    assert found["healthy"]
    assert {"python", "torch", "store", "stack", "bfloat16"} <= {check["name"] for check in found["checks"]}
    built.cli("report")
    page = (built.root / "report.html").read_text()
    assert "plotly" in page
    assert "strokes" in page
    assert "<script src=" not in page


@pytest.mark.parametrize("template", ["digits", "folder"])
def test_templates_build_as_they_stand(tmp_path: Path, template: str) -> None:
    cli("init", "flowers-lab", "--template", template, cwd=tmp_path)
    example = Example(tmp_path / "flowers-lab")
    found = out(example, "build")
    assert found["stack"] == "flowers-lab"
    assert all(layer["metrics"]["accuracy"] > 0.6 for layer in found["layers"])
    assert "error L009" in cli("init", "flowers-lab", cwd=tmp_path, check=2).stderr


def test_demo_says_what_was_reused(tmp_path: Path) -> None:
    done = cli("demo", "d", "-q", cwd=tmp_path, cold=True)
    assert "Reused: strokes" in done.stdout
    assert "saved" in done.stdout
    assert (tmp_path / "d" / "report.html").exists()
    cli("demo", "d", "-q", cwd=tmp_path)
    (tmp_path / "mine").mkdir()
    assert "error L009" in cli("demo", "mine", cwd=tmp_path, check=2).stderr
