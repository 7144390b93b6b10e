"""Mistakes in a project's models: the message names file, line and the nearest word, as soon as it can be known."""

from __future__ import annotations

import subprocess
import sys

import pytest

import laminar
from laminar.core.errors import LaminarError
from tests.conftest import Example


def refused(example: Example, *, build: bool = True) -> LaminarError:
    stack = laminar.Stack.load(example.toml)
    with pytest.raises(LaminarError) as caught:
        _ = stack.build() if build else stack.status()
    return caught.value


def line_of(example: Example, name: str, text: str) -> int:
    return next(n for n, line in enumerate((example.root / name).read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("self.head(self.features(x).flatten(0))", "RuntimeError"),  # raised inside torch, called from here
        ("self.head(self.features(y))", "NameError: name 'y' is not defined"),
        ("self.haed(self.features(x))", "AttributeError"),
    ],
)
def test_an_error_on_the_first_batch_names_the_line(example: Example, wrong: str, said: str) -> None:
    example.edit("models.py", "self.head(self.features(x))", wrong)
    error = refused(example)
    assert error.code == "L204"
    assert f"models.py:{line_of(example, 'models.py', wrong)}" in error.message
    assert said in error.message
    assert "laminar.toml:" in error.message
    if said != "RuntimeError":  # no fault of the data
        assert "do not fit" not in error.message


def test_the_line_may_be_in_a_module_further_down(example: Example) -> None:
    example.edit(
        "parts/activation.py",
        "    return nn.ReLU()",
        "    return Broken()\n\n\nclass Broken(nn.Module):\n    def forward(self, x):\n        return x + nothing",
    )
    error = refused(example)
    assert f"parts/activation.py:{line_of(example, 'parts/activation.py', 'nothing')}" in error.message


def test_an_unknown_argument_is_not_called_a_missing_one(example: Example) -> None:
    example.edit("laminar.toml", "channels = [4, 8]", "chanels = [4, 8]")
    error = refused(example)
    assert error.code == "L202"
    assert "unknown argument 'chanels'" in error.message
    assert "did you mean 'channels'?" in error.message
    assert "missing" not in error.message
    assert "it takes channels, classes" in error.message
    assert "laminar.toml:18" in error.message


def test_a_missing_argument_is_called_missing(example: Example) -> None:
    example.edit("laminar.toml", "channels = [4, 8], ", "")
    error = refused(example)
    assert "missing" in error.message and "'channels'" in error.message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"models:convnet"', '"models:convnt"', ["laminar.toml:17", "'convnt'", "'convnet'", "models.py:17"]),
        ('"models:convnet"', '"laminar:mpl"', ["laminar.toml:17", "laminar:mpl", "'mlp'"]),
        # of a layer whose parent is still to be built
        ('"models:head"', '"models:haed"', ["laminar.toml:26", "'haed'", "'head'", "models.py:21"]),
        ('"models:head"', '"modles:head"', ["laminar.toml:26", "'models'"]),
        ("classes = [1, 3, 5, 7, 9]", "classes = [1, 3, 5, 7, 19]", ["laminar.toml:12", "19"]),
    ],
)
def test_status_sees_what_is_not_there(example: Example, old: str, new: str, words: list[str]) -> None:
    example.edit("laminar.toml", old, new)
    error = refused(example, build=False)
    for word in words:
        assert word in error.message, error.message


def test_status_needs_no_torch_for_that(example: Example) -> None:
    example.edit("laminar.toml", '"models:head"', '"laminar:haed"')
    program = (
        "import sys, laminar\n"
        "try: laminar.Stack.load('laminar.toml').status()\n"
        "except laminar.LaminarError as error: assert error.code == 'L201', error\n"
        "else: raise SystemExit('nothing was said')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=example.root, check=True)


@pytest.mark.parametrize(
    "text",
    [
        "from parts.nets import *\n",
        "import parts.nets\n\n\ndef __getattr__(name):\n    return getattr(parts.nets, name)\n",
        "from parts.nets import ConvNet as convnet, head\n",
        "from functools import partial\n\nimport parts.nets\n\nconvnet = partial(parts.nets.ConvNet)\nhead = parts.nets.head\n",
        "import parts.nets\n\nglobals()['head'] = parts.nets.head\nglobals().update(convnet=parts.nets.ConvNet)\n",
        "import parts.nets\n\nif True:\n    convnet, (head, _) = parts.nets.ConvNet, (parts.nets.head, 1)\n",
        "try:\n    from torch.nn import Linear as convnet, ReLU as head\nexcept ImportError:\n    pass\n",
        "from torch.nn import *\n",
        "import sys\n\nfor n in ('convnet', 'head'):\n    setattr(sys.modules[__name__], n, print)\n",
        "def fill():\n    global convnet, head\n    convnet = head = print\n\n\nfill()\n",
    ],
    ids=["star", "getattr", "import", "partial", "globals", "unpacked", "library", "library-star", "setattr", "global"],
)
def test_status_does_not_refuse_names_that_only_running_shows(example: Example, text: str) -> None:
    (example.root / "models.py").rename(example.root / "parts" / "nets.py")
    (example.root / "models.py").write_text(text)
    assert laminar.Stack.load(example.toml).status()[0].action == "build"


def test_a_file_that_does_not_parse_is_left_to_the_build(example: Example) -> None:
    (example.root / "models.py").write_text("def convnet(:\n")
    assert laminar.Stack.load(example.toml).status()
    assert "models.py:1" in refused(example).message


def test_freezing_what_was_just_replaced_is_noted(example: Example) -> None:
    example.edit("laminar.toml", 'freeze = ["features"]', 'freeze = ["head"]')
    found = example.build()
    assert any("'head' is frozen although it was just replaced" in note for note in found["head"].notes)
    assert not any("replaced" in note for note in found["strokes"].notes)
