"""Examples: each builds as it stands, learns, and differs from the first stack by the lines that examples/README.md shows."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path

import pytest
from docs_console import REPOSITORY, Session, blocks

from laminar.stack.api import Stack

EXAMPLES = REPOSITORY / "examples"
BASE = REPOSITORY / "src" / "laminar" / "stack" / "templates" / "digits"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/laminar.toml"))


def plain(path: Path) -> list[str]:
    """The lines of a stack file that mean something, without the stack's own name."""
    lines = [re.sub(r"\s*#.*$", "", line).strip() for line in path.read_text().splitlines()]
    lines = [line for line in lines if line]
    return [line for before, line in zip(["", *lines], lines, strict=False) if before != "[stack]"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_differs_by_the_lines_that_are_shown(name: str) -> None:
    shown = [
        block.text.splitlines() for block in blocks(EXAMPLES / "README.md") if block.language == "diff" and f"[{name}]" in block.heading
    ]
    lines = difflib.ndiff(plain(BASE / "laminar.toml"), plain(EXAMPLES / name / "laminar.toml"))
    assert shown == [[line for line in lines if line[:2] in ("- ", "+ ")]]


@pytest.mark.parametrize("name", NAMES)
def test_models_of_an_example_are_those_of_the_first_stack(name: str) -> None:
    own = EXAMPLES / name / "models.py"
    assert not own.exists() or own.read_text() == (BASE / "models.py").read_text()


def test_every_example_is_listed() -> None:
    assert {name for name in NAMES if f"({name}/laminar.toml)" in (EXAMPLES / "README.md").read_text()} == set(NAMES)


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The example in a folder of its own, so that no store is left in the repository."""
    found = tmp_path / request.param
    shutil.copytree(EXAMPLES / request.param, found, ignore=shutil.ignore_patterns(".laminar", "__pycache__", "*.npz", "images"))
    return found


@pytest.mark.parametrize("copy", ["glyphs-transfer"], indirect=True)
def test_glyphs_transfer(copy: Path) -> None:
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    assert strokes.metrics["accuracy"] > 0.6
    assert head.metrics["accuracy"] > 0.6


@pytest.mark.parametrize("copy", ["npz"], indirect=True)
def test_npz(copy: Path, tmp_path: Path) -> None:
    code, printed = Session(copy, tmp_path / "home").run("python make_samples.py")
    assert code == 0, printed
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    assert min(strokes.metrics["accuracy"], head.metrics["accuracy"]) > 0.85


@pytest.mark.parametrize("copy", ["regression"], indirect=True)
def test_regression(copy: Path) -> None:
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    assert min(strokes.metrics["r2"], head.metrics["r2"]) > 0.9


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("copy", ["parallel"], indirect=True)
def test_parallel(copy: Path) -> None:
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    assert strokes.team["workers"] == 2 and strokes.team["rounds"] > 5
    assert head.team == {}
    assert min(strokes.metrics["accuracy"], head.metrics["accuracy"]) > 0.8


@pytest.mark.parametrize("copy", ["fragments"], indirect=True)
def test_fragments(copy: Path, tmp_path: Path) -> None:
    session = Session(copy, tmp_path / "home")
    for line in ("python draw_images.py", "laminar data show sheets"):
        code, printed = session.run(line)
        assert code == 0, printed
    assert (session.folder / "sheets-sheet.png").stat().st_size > 1000
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    assert min(strokes.metrics["accuracy"], head.metrics["accuracy"]) > 0.6  # chance is 1/3


@pytest.mark.parametrize("copy", ["kernels"], indirect=True)
def test_kernels(copy: Path, tmp_path: Path) -> None:
    """As accurate as the same network, of the same weights, with torch's own modules."""
    strokes, head = Stack.load(copy / "laminar.toml").build().layers
    plain = shutil.copytree(copy, tmp_path / "plain", ignore=shutil.ignore_patterns(".laminar"))
    (plain / "laminar.toml").write_text((copy / "laminar.toml").read_text().replace("classes = 5 }", 'classes = 5, by = "torch" }'))
    for one, other in zip((strokes, head), Stack.load(plain / "laminar.toml").build().layers, strict=True):
        assert one.metrics["accuracy"] > 0.9
        assert abs(one.metrics["accuracy"] - other.metrics["accuracy"]) < 0.03


@pytest.mark.parametrize("copy", ["on-a-tag"], indirect=True)
def test_on_a_tag(copy: Path, tmp_path: Path) -> None:
    author = Session(tmp_path / "author", tmp_path / "home", inside=True)
    for line in ("init .", "build -q strokes", "tag strokes strokes:v1", "push ../shared strokes:v1"):
        code, printed = author.run(f"laminar {line}")
        assert code == 0, printed
    code, printed = Session(copy, tmp_path / "home", inside=True).run("laminar pull ../shared strokes:v1")
    assert code == 0, printed
    (head,) = Stack.load(copy / "laminar.toml").build().layers
    assert head.metrics["accuracy"] > 0.85
