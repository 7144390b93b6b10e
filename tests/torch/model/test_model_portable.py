"""Files for other programs, read back by those programs, and files from them."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from model_zoo import batch, make

from laminar.core.errors import LaminarError
from laminar.model.graph import export_forms, load_forms
from laminar.model.portable import export_file, import_file
from laminar.model.weights import load_state, state


def test_safetensors_there_and_back_with_tied_weights_and_metadata(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = make("tied")
    path = tmp_path / "deep" / "tied.safetensors"
    export_file(model, path, example=batch(), metadata={"laminar.layer": "x"})
    assert set(load_file(path)) == set(state(model)[0])
    found = import_file(path)
    assert found.metadata["laminar.layer"] == "x"
    assert found.forms is None
    other = make("tied")
    with torch.no_grad():
        other.get_parameter("head.bias").fill_(3)
    load_state(other, found.tensors, found.aliases)
    assert torch.equal(other(batch()), model(batch()))
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["cnn", "constants", "tied"])
def test_pt2_is_read_by_plain_torch_and_by_us_for_any_batch_size(tmp_path: Path, name: str) -> None:
    model = make(name).eval()
    path = tmp_path / "model.pt2"
    export_file(model, path, example=batch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own loader, about its own file
        plain = torch.export.load(path).module()
    found = import_file(path)
    assert found.forms is not None
    ours = load_forms(found.forms.train, found.forms.eval, found.tensors, found.aliases)
    assert list(ours.state_dict()) == list(model.state_dict())
    for size in (1, 2, 9):
        expected = model(batch(size))
        torch.testing.assert_close(plain(batch(size)), expected)
        torch.testing.assert_close(ours(batch(size)), expected)


def test_a_graph_is_exported_to_onnx_and_pt2_without_its_source_for_any_batch_size(tmp_path: Path) -> None:
    import onnxruntime

    model = make("cnn")
    forms = export_forms(model, batch())
    loaded = load_forms(forms.train, forms.eval, *state(model))
    loaded.train()  # the files hold the evaluation form all the same
    for suffix in (".pt2", ".onnx"):
        export_file(loaded, tmp_path / f"x{suffix}", example=batch(), metadata={"laminar.layer": "x"})
    assert loaded.training
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.onnx", "x.pt2"]
    assert import_file(tmp_path / "x.pt2").forms is not None
    session = onnxruntime.InferenceSession(tmp_path / "x.onnx", providers=["CPUExecutionProvider"])
    for size in (1, 4):
        found = session.run(None, {session.get_inputs()[0].name: batch(size).numpy()})[0]
        assert found == pytest.approx(model.eval()(batch(size)).detach().numpy(), abs=1e-5)


def test_onnx_without_its_libraries_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "onnx" else real(name, *a))
    with pytest.raises(LaminarError) as caught:
        export_file(make("mlp"), tmp_path / "x.onnx", example=batch())
    assert caught.value.code == "L011"
    assert "pip install 'laminar-train[onnx]'" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_unknown_suffixes_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match=r"did you mean '\.onnx'") as caught:
        export_file(make("mlp"), tmp_path / "x.onx", example=batch())
    assert caught.value.code == "L008"
    for name, code in [("x.h5", "L008"), ("x.safetensors", "L208")]:
        with pytest.raises(LaminarError) as caught:
            import_file(tmp_path / name)
        assert caught.value.code == code


@pytest.mark.parametrize("wrap", [None, "state_dict", "model_state_dict"])
def test_plain_weights_of_pt_files(tmp_path: Path, wrap: str | None) -> None:
    model = make("tied")
    content = model.state_dict()
    torch.save({wrap: content, "epoch": 3} if wrap else content, tmp_path / "w.pt")
    found = import_file(tmp_path / "w.pt")
    assert found.aliases == state(model)[1]
    other = make("tied")
    load_state(other, found.tensors, found.aliases)


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt", "x.pt2"])
def test_damaged_files_are_errors_with_a_code(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".pt"):
        torch.save(make("mlp").state_dict(), path)
    else:
        export_file(make("mlp"), path, example=batch())
    data = path.read_bytes()
    for bad in (b"", data[:40], data[: len(data) // 2]):
        path.write_bytes(bad)
        with pytest.raises(LaminarError) as caught:
            import_file(path)
        assert caught.value.code in ("L207", "L208")


def test_a_failed_export_leaves_no_file_and_the_old_one(tmp_path: Path) -> None:
    from torch import Tensor, nn

    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    path = tmp_path / "x.pt2"
    path.write_text("old")
    with pytest.raises(LaminarError, match="cannot be exported") as caught:
        export_file(Branches(), path, example=batch())
    assert caught.value.code == "L206"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
