from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.model.build import make_model
from laminar.model.factory import load_factory


def project(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


LINEAR = "from torch import nn\ndef net(classes, wide=3): return nn.Linear(wide, classes)\n"


def test_two_projects_with_a_module_of_one_name_do_not_see_each_other(tmp_path: Path) -> None:
    before = (list(sys.path), "models" in sys.modules)
    a = project(
        tmp_path / "a",
        models="import helpers\ndef net(): return helpers.make()\n",
        helpers="from torch import nn\ndef make(): return nn.ReLU()\n",
    )
    b = project(
        tmp_path / "b",
        models="import helpers\ndef net(): return helpers.make()\n",
        helpers="from torch import nn\ndef make(): return nn.Tanh()\n",
    )
    assert isinstance(load_factory("models:net", a)(), nn.ReLU)
    assert isinstance(load_factory("models:net", b)(), nn.Tanh)
    assert isinstance(load_factory("models:net", a)(), nn.ReLU)
    assert (list(sys.path), "models" in sys.modules) == before
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_changed_helper_is_read_again_and_an_unchanged_project_keeps_its_classes(tmp_path: Path) -> None:
    root = project(
        tmp_path, models="from torch import nn\nimport helpers\nclass Net(nn.Module):\n    size = helpers.SIZE\n", helpers="SIZE = 1\n"
    )
    first = load_factory("models:Net", root)
    assert load_factory("models:Net", root) is first
    (root / "helpers.py").write_text("SIZE = 2\n")  # same length, same second
    second = load_factory("models:Net", root)
    assert (first.size, second.size) == (1, 2)  # type: ignore[attr-defined]
    assert isinstance(first(), nn.Module)


def test_relative_absolute_late_and_star_imports_and_dataclasses_work(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        nets____init__="from .parts import width\n",
        nets__parts="def width(): return 4\n",
        nets__cnn=(
            "from __future__ import annotations\n"
            "import dataclasses\n"
            "from torch import nn\n"
            "from . import parts\n"
            "from .parts import *\n"
            "import nets.parts\n"
            "from nets import parts as again\n"
            "@dataclasses.dataclass\n"
            "class Sizes:\n"
            "    wide: int = 4\n"
            "def make():\n"
            "    import late.inner\n"
            "    assert parts is again is nets.parts and width() == 4\n"
            "    return nn.Linear(Sizes().wide, late.inner.OUT)\n"
        ),
        late__inner="OUT = 7\n",
    )
    made = make_model("nets.cnn:make", {}, root, seed=0)
    assert isinstance(made, nn.Linear)
    assert made.out_features == 7


def test_weights_come_from_the_seed_alone_and_the_global_stream_is_left_alone(tmp_path: Path) -> None:
    root = project(tmp_path, models=LINEAR)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    a = make_model("models:net", {"classes": 2}, root, seed=5)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(9)
    b = make_model("models:net", {"classes": 2}, root, seed=5)
    c = make_model("models:net", {"classes": 2}, root, seed=6)
    assert torch.equal(a.weight, b.weight)  # type: ignore[arg-type]
    assert not torch.equal(a.weight, c.weight)  # type: ignore[arg-type]


def test_required_parameters_are_injected_and_args_win(tmp_path: Path) -> None:
    root = project(tmp_path, models=LINEAR)
    made = make_model("models:net", {}, root, seed=0, inject={"classes": 4, "input_shape": (1, 8, 8), "old": None})
    assert made.out_features == 4
    assert make_model("models:net", {"classes": 9}, root, seed=0, inject={"classes": 4}).out_features == 9


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("model:net", "L201", ["model.py", "models"]),
        ("models:nett", "L201", ["models.py", "did you mean 'net'"]),
        ("models", "L201", ["module:function"]),
        ("models:LIST", "L201", ["list"]),
        ("laminar:mpl", "L201", ["mlp"]),
        ("nets/x:y", "L201", ["module:function"]),
    ],
)
def test_what_cannot_be_found_names_the_nearest(tmp_path: Path, text: str, code: str, words: list[str]) -> None:
    root = project(tmp_path, models=LINEAR + "LIST = [1]\n")
    with pytest.raises(LaminarError) as caught:
        load_factory(text, root)
    assert caught.value.code == code
    assert all(word in caught.value.message for word in words), caught.value.message


@pytest.mark.parametrize(
    ("source", "args", "words"),
    [
        ("def net(): raise ValueError('too\\nlong')\n", {}, ["models:net()", "models.py:1", "ValueError: too"]),
        ("def net(): return 3\n", {}, ["int", "torch.nn.Module"]),
        (LINEAR, {"clases": 3}, ["models:net(clases=3)", "did you mean 'classes'"]),
        (LINEAR, {}, ["missing", "'classes'"]),
        ("import nothing_of_the_kind\n", {}, ["models.py:1", "No module named 'nothing_of_the_kind'"]),
        ("def net(:\n", {}, ["models.py:1", "SyntaxError"]),
        ("import other\ndef net(): return other.f()\n", {}, ["other.py:2", "ZeroDivisionError"]),
    ],
)
def test_a_failing_factory_is_named_with_args_and_line(tmp_path: Path, source: str, args: dict[str, int], words: list[str]) -> None:
    root = project(tmp_path, models=source, other="def f():\n    return 1 / 0\n")
    with pytest.raises(LaminarError) as caught:
        make_model("models:net", args, root, seed=0)
    assert caught.value.code == "L202"
    assert all(word in caught.value.message for word in words), caught.value.message
    assert "_laminar_project_" not in str(caught.value)


def test_a_failed_import_is_tried_again(tmp_path: Path) -> None:
    root = project(tmp_path, models="1 / 0\n")
    with pytest.raises(LaminarError):
        load_factory("models:net", root)
    (root / "models.py").write_text(LINEAR)
    assert callable(load_factory("models:net", root))


@pytest.mark.parametrize(
    ("factory", "args", "shape"),
    [
        ("laminar:mlp", {}, (1, 8, 8)),
        ("laminar:mlp", {"hidden": [16, 8], "dropout": 0.1, "activation": "gelu"}, (5,)),
        ("laminar:linear", {}, (1, 8, 8)),
        ("laminar:convnet", {"channels": [4, 8]}, (1, 8, 8)),
        ("laminar:convnet", {"channels": [4, 8, 8, 8], "hidden": [6], "norm": False, "dropout": 0.2}, (3, 9, 12)),
        ("laminar:convnet", {"channels": [4], "kernel": 4}, (1, 8, 8)),
    ],
)
def test_built_in_models_have_features_and_a_head(tmp_path: Path, factory: str, args: dict[str, object], shape: tuple[int, ...]) -> None:
    made = make_model(factory, args, tmp_path, seed=0, inject={"classes": 5, "input_shape": shape})
    assert made(torch.zeros(3, *shape)).shape == (3, 5)
    assert {name for name, _ in made.named_children()} == {"features", "head"}


def test_a_bad_built_in_call_is_an_error_of_the_user(tmp_path: Path) -> None:
    for factory, args in [("laminar:convnet", {"input_shape": [5]}), ("laminar:mlp", {"activation": "rellu", "input_shape": [5]})]:
        with pytest.raises(LaminarError) as caught:
            make_model(factory, args, tmp_path, seed=0, inject={"classes": 5})
        assert caught.value.code == "L202"


def test_finding_a_project_factory_loads_no_torch() -> None:
    code = "import sys; import laminar.model, laminar.model.factory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
