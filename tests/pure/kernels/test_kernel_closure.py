"""A kernel's text is part of the code that reads it by `laminar.kernel`: of that code only, and without its comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core import project_code
from laminar.core.closure import closure

MODELS = """
import laminar
import laminar as lm
from laminar import kernel as read
import deep.net

leaky = laminar.kernel("leaky.c")
both = (lm.kernel("leaky.c"), read(path="other.c"))
NAME = "leaky.c"

def one():
    return leaky

def two():
    return both

def inside():
    from laminar import kernel
    return kernel("other.c")

def below():
    return deep.net.make()

def computed():
    return laminar.kernel(NAME)

def text():
    return laminar.kernel("own.c", source="void kernel() {}")

def none():
    return 1
"""
FILES = {
    "models.py": MODELS,
    "leaky.c": "void kernel(int i, int n, float y[n]) { y[i] = 1; }\n",
    "other.c": "void kernel(int i, int n, float y[n]) { y[i] = 2; }\n",
    "deep/__init__.py": "",
    "deep/net.py": "import laminar\n\ndef make():\n    return laminar.kernel('near.c'), laminar.kernel('leaky.c')\n",
    "deep/near.c": "void kernel(int i, int n, float y[n]) { y[i] = 3; }\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("symbol", "files"),
    [
        ("one", {"leaky.c"}),
        ("two", {"leaky.c", "other.c"}),
        ("inside", {"other.c"}),
        ("below", {"deep/near.c", "leaky.c"}),
        ("computed", {"leaky.c", "other.c", "deep/near.c"}),
        ("text", set()),
        ("none", set()),
    ],
)
def test_which_kernels_count(symbol: str, files: set[str], root: Path) -> None:
    assert {name for name in closure("models", symbol, root) if name.endswith(".c")} == files


def test_a_kernel_changes_what_reads_it_and_nothing_else(root: Path) -> None:
    before = {symbol: closure("models", symbol, root) for symbol in ("one", "two", "inside", "none")}
    (root / "leaky.c").write_text(FILES["leaky.c"].replace("= 1", "= 4"))
    changed = [symbol for symbol, code in before.items() if closure("models", symbol, root) != code]
    assert changed == ["one", "two"]


def test_comments_and_spaces_do_not_count(root: Path) -> None:
    before = closure("models", "one", root)
    (root / "leaky.c").write_text("/* one\n element */\n" + FILES["leaky.c"].replace(" { ", "  {\t") + "// the end\n\n")
    assert closure("models", "one", root) == before


def test_a_module_is_imported_anew_when_its_kernel_changed(root: Path) -> None:
    (root / "small.py").write_text("from pathlib import Path\nTEXT = (Path(__file__).parent / 'leaky.c').read_text()\n")
    project = root.resolve()
    module = project_code.import_from(project, "small")
    project_code.also_read(project / "small.py", project / "leaky.c")
    assert project_code.is_code(project / "leaky.c") and not project_code.is_code(project / "other.c")
    assert project_code.import_from(project, "small") is module
    (root / "leaky.c").write_text("changed")
    assert project_code.import_from(project, "small").TEXT == "changed"
