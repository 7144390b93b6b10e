"""The source closure: what a factory reaches counts, what it does not reach does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.closure import closure, closure_digest

FILES = {
    "models.py": """
import torch
from torch import nn
from nets.act import relu
import nets.blocks as blocks

WIDTH = 3

def convnet(n):
    return nn.Sequential(blocks.block(n), relu(), WIDTH)

def head():
    return nn.Linear(1, 2)
""",
    "nets/__init__.py": "",
    "nets/act.py": "from .deep import f\n\ndef relu():\n    return f()\n\ndef unused():\n    return 1\n",
    "nets/deep.py": "def f():\n    return 3\n",
    "nets/blocks.py": 'def block(n):\n    "A block."\n    return n\n',
    "unrelated.py": "x = 1\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def edit(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def test_reaches_what_it_uses_and_no_more(root: Path) -> None:
    found = closure("models", "convnet", root)
    assert set(found) == {
        "models.py:convnet",
        "models.py:WIDTH",
        "nets/act.py:relu",
        "nets/deep.py:f",
        "nets/blocks.py:block",
    }
    assert set(closure("models", "head", root)) == {"models.py:head"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("nets/deep.py", "return 3", "return 4"),  # two imports away
        ("nets/blocks.py", "return n", "return n + 1"),  # through a module alias
        ("models.py", "WIDTH = 3", "WIDTH = 4"),  # a constant
        ("models.py", "from torch import nn", "from other import nn"),  # what a third-party name stands for
    ],
)
def test_a_change_of_what_is_reached_changes_it(root: Path, name: str, old: str, new: str) -> None:
    before = closure("models", "convnet", root)
    edit(root, name, old, new)
    assert closure("models", "convnet", root) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("unrelated.py", "x = 1", "x = 2"),
        ("nets/act.py", "return 1", "return 2"),  # a neighbour nobody calls
        ("models.py", "nn.Linear(1, 2)", "nn.Linear(1, 3)"),  # the other factory
        ("nets/deep.py", "return 3", "return 3  # a comment"),
        ("nets/deep.py", "def f():\n    return 3", "def f():\n    return (\n        3\n    )"),  # layout
        ("nets/blocks.py", '"A block."', '"Another docstring."'),
    ],
)
def test_a_change_of_anything_else_does_not(root: Path, name: str, old: str, new: str) -> None:
    before = closure("models", "convnet", root)
    edit(root, name, old, new)
    assert closure("models", "convnet", root) == before


@pytest.mark.parametrize(
    "statement",
    [
        "torch.set_default_dtype(torch.float64)",  # runs at import
        "nn.Linear.forward = lambda self, x: x",  # a patch
        "if True:\n    torch.manual_seed(3)",
        "@torch.jit.ignore\ndef registered(): ...",  # a decorator may register
        "for _ in range(2):\n    torch.rand(1)",
    ],
)
def test_what_runs_at_import_always_counts(root: Path, statement: str) -> None:
    before = closure("models", "head", root)
    (root / "models.py").write_text((root / "models.py").read_text() + "\n" + statement + "\n")
    assert closure("models", "head", root) != before


def test_a_main_block_does_not_run_at_import(root: Path) -> None:
    before = closure("models", "head", root)
    (root / "models.py").write_text((root / "models.py").read_text() + '\nif __name__ == "__main__":\n    print(convnet(1))\n')
    assert closure("models", "head", root) == before


@pytest.mark.parametrize(
    "line", ["from nets.act import *", "from nets import act", "import nets.act", "import importlib; importlib.import_module('nets.act')"]
)
def test_every_way_to_import_is_followed(root: Path, line: str) -> None:
    (root / "other.py").write_text(
        f"def make():\n    return make_it()\n\ndef make_it():\n    {line if '*' not in line else 'return relu'}\n    return nets\n"
    )
    if "*" in line:
        (root / "other.py").write_text(f"{line}\n\ndef make():\n    return relu()\n")
    elif "importlib" not in line:
        (root / "other.py").write_text(f"{line}\n\ndef make():\n    return {'act' if 'from' in line else 'nets.act'}.relu()\n")
    before = closure("other", "make", root)
    edit(root, "nets/deep.py", "return 3", "return 5")
    assert closure("other", "make", root) != before


def test_dynamic_names_take_the_whole_module(root: Path) -> None:
    (root / "dynamic.py").write_text("def a():\n    return 1\n\ndef make(name):\n    return globals()[name]()\n")
    before = closure("dynamic", "make", root)
    edit(root, "dynamic.py", "return 1", "return 2")
    assert closure("dynamic", "make", root) != before


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        ({"m.py": "import effects\ndef make(): ...", "effects.py": "import torch\ntorch.nn.Linear.size = 8"}, "effects.py"),
        (
            {
                "m.py": "from reg import REG\nimport more\ndef make(): return REG",
                "reg.py": "REG = {}",
                "more.py": "from reg import REG\nREG['a'] = 8",
            },
            "more.py",
        ),
        (
            {
                "m.py": "from p.core import R\ndef make(): return R",
                "p/__init__.py": "from . import x",
                "p/core.py": "R = {}",
                "p/x.py": "from .core import R\nR[1] = 8",
            },
            "p/x.py",
        ),
        ({"m.py": "class Base:\n    def __init_subclass__(cls): ...\nclass A(Base):\n    w = 8\ndef make(): return Base"}, "m.py"),
        ({"m.py": "class Base: ...\nclass A(Base):\n    w = 8\ndef make(): return Base.__subclasses__()"}, "m.py"),
        ({"m.py": "import sys\ndef f(): return 8\ndef make(n): return getattr(sys.modules[__name__], n)"}, "m.py"),
        (
            {"m.py": "import importlib\ndef make(n): return importlib.import_module(f'b.{n}')", "b/__init__.py": "", "b/a.py": "W = 8"},
            "b/a.py",
        ),
        ({"m.py": "from h import foo\ndef make(): return foo", "h.py": "def __getattr__(n): return 8"}, "h.py"),
        ({"m.py": "class A: ...\ndef g(self): return 8\nA.f, x = g, 1\ndef make(): return A"}, "m.py"),
        ({"m.py": "if __name__ != '__main__':\n    W = 8\ndef make(): return W"}, "m.py"),
    ],
)
def test_effects_of_imports_and_hidden_names_count(tmp_path: Path, files: dict[str, str], changed: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = closure("m", "make", tmp_path)
    edit(tmp_path, changed, "8", "9")
    assert closure("m", "make", tmp_path) != before


def test_circular_imports_end(root: Path) -> None:
    (root / "a.py").write_text("import b\ndef f():\n    return b.g()\n")
    (root / "b.py").write_text("import a\ndef g():\n    return a.f()\n")
    assert set(closure("a", "f", root)) == {"a.py:f", "b.py:g"}


def test_the_closure_does_not_depend_on_where_the_project_lies(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name, text in FILES.items():
        (elsewhere / name).parent.mkdir(exist_ok=True)
        (elsewhere / name).write_text(text)
    assert closure("models", "convnet", root) == closure("models", "convnet", elsewhere)
    assert closure_digest(root / "models.py", root) == closure_digest(elsewhere / "models.py", elsewhere)


def test_a_file_that_does_not_parse_counts_by_its_bytes(root: Path) -> None:
    (root / "models.py").write_text("def convnet(:\n")
    before = closure("models", "convnet", root)
    (root / "models.py").write_text("def convnet(::\n")
    assert closure("models", "convnet", root) != before
