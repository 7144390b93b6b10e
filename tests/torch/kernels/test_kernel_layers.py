"""Kernels inside models of layers: no graph, a prefix that can be kept, a project whose kernel is edited."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernel_texts import LEAKY
from torch import nn

import laminar
from laminar.core.errors import LaminarError
from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from laminar.grid.describe import describe
from laminar.model.build import make_model
from laminar.model.freeze import freeze
from laminar.model.graph import export_forms
from laminar.model.prefix import Prefix, find_prefix
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.strategies import Grid


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), laminar.kernel("leaky.c", source=LEAKY).module(slope=0.1), nn.Linear(3, 2))


def test_a_model_with_kernels_has_no_graph() -> None:
    forms = export_forms(net(), torch.randn(2, 4))
    assert forms.train is None and forms.eval is None
    assert forms.note.endswith("wherever it is used: it calls the kernel 'leaky', and a graph has no kernels in it")


def test_strangers_cannot_train_it(tmp_path: Path) -> None:
    model, spec = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), *list(net())), DataSpec(source="digits", limit=50)
    job = Job("net", model, open_data(spec, tmp_path), Recipe(epochs=1, strategy=Grid()), freeze(model, []), tmp_path)
    with pytest.raises(LaminarError, match=r"nodes get a graph and no code, and .* it calls the kernel 'leaky'") as caught:
        describe(job, "run", spec, [])
    assert caught.value.code == "L504"


def test_its_prefix_can_be_kept() -> None:
    model = net()
    frozen = freeze(model, ["0", "1"])
    found = find_prefix(model, torch.randn(3, 4), frozen)
    assert isinstance(found, Prefix) and found.how == "graph"
    assert "laminar_kernels.leaky_" in str(found.fit.graph)
    x = torch.randn(5, 4)
    torch.testing.assert_close(found.test.suffix(*found.test.features(x)), model.eval()(x))


def test_an_edited_kernel_is_read_again(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "leaky.c").write_text(LEAKY)
    (root / "models.py").write_text(
        "import laminar\n\nleaky = laminar.kernel('leaky.c')\n\ndef net():\n    return leaky.module(slope=0.5)\n"
    )
    x = torch.tensor([-1.0, 1.0])
    assert make_model("models:net", {}, root, seed=0)(x).tolist() == [-0.5, 1.0]
    (root / "leaky.c").write_text(LEAKY.replace("slope * v", "slope * v * 3"))
    assert make_model("models:net", {}, root, seed=0)(x).tolist() == [-1.5, 1.0]
