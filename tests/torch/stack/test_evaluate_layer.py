"""`evaluate` judges a layer by what it was trained with: its own loss, its own data, the split that was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.stack.project import open_project
from laminar.stack.use import Evaluation, evaluate
from laminar.store import records
from laminar.store.resolve import resolve
from laminar.train.recipe import Loss
from tests.conftest import Example, cli

STACK = """\
[stack]
name = "lines"

[data.points]
source = "npz:points.npz"

[[layer]]
name = "line"
model = "models:line"
data = "points"
train = { epochs = 1, batch = 8, optimizer = "sgd", lr = 0.01, seed = 0, threads = 1, loss = "LOSS" }
"""


def points(root: Path, loss: str) -> Example:
    """A layer for numbers, trained with a loss, with targets far from its answers."""
    root.mkdir()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    np.savez(root / "points.npz", x=x, y=(x.sum(1, keepdims=True) * 5 + 3).astype(np.float32))
    (root / "laminar.toml").write_text(STACK.replace("LOSS", loss))
    (root / "models.py").write_text("from torch import nn\n\n\ndef line():\n    return nn.Linear(3, 1)\n")
    return Example(root)


def judge(example: Example, layer: str, data: str | None = None, **options: Any) -> Evaluation:
    project = open_project(example.root)
    return evaluate(project, example.store(), resolve(example.store(), layer, project.stack), data, **options)


@pytest.mark.parametrize("loss", [name for name in get_args(Loss) if name != "cross-entropy"])
def test_the_loss_is_the_one_of_the_training(tmp_path: Path, loss: str) -> None:
    example = points(tmp_path / loss, loss)
    built = example.build()["line"]
    judged = judge(example, "line", "points")
    assert judged.objective == loss
    assert judged.metrics["loss"] == pytest.approx(built.metrics["loss"], rel=1e-6)


def test_without_data_it_is_the_layers_own(built: Example) -> None:
    judged = judge(built, "head")
    assert (judged.data, judged.split) == ("odd", "test")
    assert judged.metrics["accuracy"] == pytest.approx(built.store().layer(judged.id).metrics["accuracy"])


def test_a_split_is_test_or_train_and_nothing_else(built: Example) -> None:
    sizes = {split: judge(built, "head", split=split).samples for split in ("test", "train")}
    assert sizes["train"] > sizes["test"]
    failed = built.cli("evaluate", "head", "--split", "banana", check=2)
    assert "error L008" in failed.stderr and "'banana'" in failed.stderr and "test and train" in failed.stderr


def test_a_record_from_elsewhere_cannot_choose_a_function_or_a_file_here(built: Example, tmp_path: Path) -> None:
    """The stack file here names no such data, so nothing of the record is opened."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n\n\ndef load():\n    pass\n")
    store = built.store()
    path = store.layout.key(store.layer(resolve(store, "digits/head", None)).key)
    content = records.load(path.read_bytes())
    content["data"] = {"name": "elsewhere", "source": f"python:{tmp_path / 'evil'}:load"}
    path.write_bytes(records.dump(content))
    with pytest.raises(LaminarError, match=r"no such data set here") as caught:
        judge(built, "head")
    assert caught.value.code == "L006" and not (tmp_path / "ran").exists()


def test_an_imported_layer_has_no_data_of_its_own(built: Example, tmp_path: Path) -> None:
    built.cli("export", "head", str(tmp_path / "head.pt2"))
    built.cli("import", str(tmp_path / "head.pt2"), "--name", "imported/foreign")
    failed = built.cli("evaluate", "imported/foreign", check=2)
    assert "error L008" in failed.stderr and "--data" in failed.stderr


def test_a_pulled_layer_is_judged_on_packaged_data_without_a_stack_file(built: Example, tmp_path: Path) -> None:
    built.toml.write_text(built.toml.read_text().replace("limit = 300\n", ""))
    built.build()
    built.cli("push", str(tmp_path / "remote"), "head")
    (tmp_path / "empty").mkdir()
    cli("pull", str(tmp_path / "remote"), "digits/head", cwd=tmp_path / "empty")
    done = cli("evaluate", "digits/head", "--json", cwd=tmp_path / "empty")
    assert json.loads(done.stdout)["data"] == "digits"


def test_data_with_another_number_of_targets_is_refused(tmp_path: Path) -> None:
    """Differences of (50, 1) and (50, 2) would be taken of everything with everything."""
    example = points(tmp_path / "lines", "mse")
    example.build()
    np.savez(example.root / "two.npz", x=np.zeros((50, 3), np.float32), y=np.zeros((50, 2), np.float32))
    with pytest.raises(LaminarError, match="expected 2 for each") as caught:
        judge(example, "line", "npz:two.npz")
    assert caught.value.code == "L204"


@pytest.mark.parametrize("trained", [["loss"], "mse", 7, None])
def test_a_record_of_somebody_else_may_say_anything_of_the_training(tmp_path: Path, trained: object) -> None:
    example = points(tmp_path / "lines", "mse")
    example.build()
    store = example.store()
    manifest = store.layer(str(store.refs.get("lines/line")))
    record = store.record(manifest.key)
    assert record is not None
    content = msgspec.to_builtins(record)
    content["inputs"]["train"] = trained
    store.layout.key(manifest.key).write_bytes(records.dump(content))
    assert judge(example, "line", "points").objective == "mse"
