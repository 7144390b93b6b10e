"""Kernels inside models of layers: graphs that name them, a prefix that can be kept, a project whose kernel is edited."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernel_texts import LEAKY
from torch import Tensor, nn

import laminar
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from laminar.grid.describe import describe
from laminar.model.build import make_model
from laminar.model.freeze import freeze
from laminar.model.graph import export_forms, kernels_of, load_forms, structure_of
from laminar.model.graph_file import read_archive, write_archive
from laminar.model.graph_reuse import sight_of
from laminar.model.portable import export_file
from laminar.model.prefix import Prefix, find_prefix
from laminar.stack.kernels import kernels_from
from laminar.train.job import Job
from laminar.train.recipe import Recipe
from laminar.train.strategies import Grid


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), laminar.kernel("leaky.c", source=LEAKY).module(slope=0.1), nn.Linear(3, 2))


def exported(model: nn.Module) -> tuple[bytes, bytes, dict[str, Tensor]]:
    forms = export_forms(model, torch.randn(2, 4))
    assert forms.train is not None and forms.eval is not None, forms.note
    return forms.train, forms.eval, dict(model.state_dict())


def renamed(data: bytes, old: str, new: str) -> bytes:
    """An archive whose graph calls another operator."""
    archive = read_archive(data)
    assert old.encode() in archive.graph
    archive.graph = archive.graph.replace(old.encode(), new.encode())
    return write_archive(archive)


def test_a_graph_names_its_kernels_and_does_what_the_model_does() -> None:
    model, x = net(), torch.randn(5, 4, requires_grad=True)
    train, evaluation, tensors = exported(model)
    assert kernels_of(train, evaluation) == [KernelName.of(LEAKY, "leaky.c")]
    assert b"slope * v" not in read_archive(train).graph and structure_of(train, evaluation)
    loaded = load_forms(train, evaluation, tensors)
    outcomes = []
    for one in (model, loaded):
        made = one(x)
        (slope,) = torch.autograd.grad(made.sum(), x)
        outcomes.append((made, slope))
    torch.testing.assert_close(outcomes[0], outcomes[1], rtol=0, atol=0)


def test_a_kernel_with_trained_values_has_a_graph() -> None:
    model = nn.Sequential(nn.Linear(4, 3), laminar.kernel("leaky.c", source=LEAKY).module(slope=torch.tensor(0.1)))
    train, evaluation, tensors = exported(model)
    loaded = load_forms(train, evaluation, tensors)
    x = torch.randn(2, 4)
    assert torch.equal(loaded(x), model(x))
    loaded(x).sum().backward()
    assert dict(loaded.named_parameters())["1.slope"].grad is not None


def test_a_kernel_comes_from_a_file_with_its_digest_or_not_at_all(tmp_path: Path) -> None:
    text = LEAKY.replace("v < 0.0f", f"v < 0.0f /* {tmp_path} */ && v < 7.0f")  # no other test has it
    wanted, here = KernelName.of(text, "leaky.c"), KernelName.of(LEAKY, "leaky.c")
    laminar.kernel("leaky.c", source=LEAKY)
    train, evaluation, tensors = exported(net())
    data = [renamed(one, here.operator, wanted.operator) for one in (train, evaluation)]
    with pytest.raises(
        LaminarError, match=rf"calls the kernel leaky\.c \(sha256 {wanted.sha256[:12]}…\), which is not here \[L706"
    ) as caught:
        load_forms(*data, tensors)
    assert caught.value.code == "L706"
    with kernels_from(tmp_path), pytest.raises(LaminarError, match=r"there is no leaky\.c in "):
        load_forms(*data, tensors)
    (tmp_path / "leaky.c").write_text(LEAKY)
    with kernels_from(tmp_path), pytest.raises(LaminarError, match=rf"leaky\.c is another one \(sha256 {here.sha256[:12]}…\)"):
        load_forms(*data, tensors)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "leaky.c").write_text("// moved\n" + text)
    with kernels_from(tmp_path):
        loaded = load_forms(*data, tensors)
    assert loaded(torch.randn(2, 4)).shape == (2, 2)


@pytest.mark.parametrize("name", ["leaky_0123456789ab", "leaky_{sha}_other", "leaky_{sha}.default.default", "{sha}"])
def test_other_operators_of_kernels_are_refused(name: str, tmp_path: Path) -> None:
    """Adjoints, and values that there are not."""
    (tmp_path / "leaky.c").write_text(LEAKY)
    here = KernelName.of(LEAKY, "leaky.c")
    train, evaluation, tensors = exported(net())
    data = [renamed(one, here.operator, name.format(sha=here.sha256)) for one in (train, evaluation)]
    with kernels_from(tmp_path), pytest.raises(LaminarError) as caught:
        load_forms(*data, tensors)
    assert caught.value.code == "L207"


def test_a_grid_is_told_which_kernels_nodes_must_have(tmp_path: Path) -> None:
    model, spec = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), *list(net())), DataSpec(source="digits", limit=50)
    job = Job("net", model, open_data(spec, tmp_path), Recipe(epochs=1, strategy=Grid()), freeze(model, []), tmp_path)
    described = describe(job, "run", spec, [])
    assert described.settings.kernels == {KernelName.of(LEAKY, "leaky.c").sha256: "leaky"}


def test_a_model_with_kernels_looks_the_same_twice_and_another_kernel_does_not() -> None:
    def sight(text: str) -> str | None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), laminar.kernel("leaky.c", source=text).module(slope=0.1))
        return sight_of(model, torch.randn(2, 4), frozen=None, made={})

    assert sight(LEAKY) is not None and sight(LEAKY) == sight(LEAKY) != sight(LEAKY.replace("0.0f", "0.5f"))


def test_onnx_says_that_it_has_no_kernels(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"calls the kernel leaky\.c \(sha256 .*ONNX has no operator"):
        export_file(net(), tmp_path / "net.onnx", example=torch.randn(2, 4))


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
