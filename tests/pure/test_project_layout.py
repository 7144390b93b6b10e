"""The shape of the project: imports point down, packages say what they are, starting up loads no torch, no machine's paths."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import laminar
from laminar.core.errors import CATALOGUE

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "laminar"
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
TEXTS = {".py", ".md", ".toml", ".yaml", ".yml", ".cfg", ".json", ".sh", ""}
PARTS = ("src", "tests", "docs", "examples", "benchmarks", ".ci")


def test_nothing_installs_the_other_project_that_is_called_laminar() -> None:
    """`laminar` on PyPI is somebody else's. Ours is laminar-train, in hints, docs, manifests and its own extras."""
    command = re.compile(r"(?<!&& )\binstall\s+([^`;&#\n]*)")
    other = re.compile(r"[\"'(=]?laminar(\[.*|[=<>~]=.*|[\"'),.]*)")
    bad = [
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for path in texts()
        for line in path.read_text(errors="replace").splitlines()
        for asked in command.findall(line)
        for word in asked.split()
        if other.fullmatch(word)
    ]
    assert not bad, "\n".join(bad)
    project = PYPROJECT["project"]
    assert project["name"] == "laminar-train"
    of_itself = [need for needs in project["optional-dependencies"].values() for need in needs if need.startswith("laminar")]
    assert of_itself and all(need.startswith("laminar-train[") for need in of_itself)


def packages() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("__init__.py") if "templates" not in path.parts)


def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_contracts_are_about_every_package_that_is_there() -> None:
    """A package that no contract names could import what it likes."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    named = {part.strip() for contract in contracts for name in contract.get("layers", []) for part in name.split("|")}
    there = {f"laminar.{path.parent.name}" for path in packages() if path.parent.parent == SOURCE}
    assert there - named <= {"laminar.testing"}


def test_no_package_is_a_drawer_for_odds_and_ends() -> None:
    names = {path.parent.name for path in packages()} | {path.stem for path in SOURCE.rglob("*.py")}
    assert not names & {"utils", "util", "common", "helpers", "helper", "base", "misc"}


@pytest.mark.parametrize("package", packages(), ids=lambda path: path.parent.name)
def test_every_package_has_a_map(package: Path) -> None:
    assert ast.get_docstring(ast.parse(package.read_text())), f"{package} has no docstring"


@pytest.mark.parametrize("package", packages(), ids=lambda path: path.parent.name)
def test_package_maps_name_files_that_are_there(package: Path) -> None:
    """A file named in a package's docstring is in that package, or says where else it is."""
    named = set(re.findall(r"(?<![\w/])([a-z_]+\.py)\b", ast.get_docstring(ast.parse(package.read_text())) or ""))
    there = {path.name for path in package.parent.glob("*.py")} | {
        path.name for path in SOURCE.rglob("*.py") if path.parent != package.parent
    }
    assert named <= there


@pytest.mark.parametrize("folder", ["core", "store", "data"])
def test_no_torch_where_none_belongs(folder: str) -> None:
    modules = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in (SOURCE / folder).rglob("*.py")]
    modules = [name.removesuffix(".__init__") for name in modules]
    assert loaded(f"import importlib\nfor name in {modules!r}: importlib.import_module(name)") == []


@pytest.mark.parametrize(
    "line", ["--help", "--version", "init lab", "status", "status --json", "explain head", "log", "tag", "build --dry-run"]
)
def test_verbs_that_need_no_torch_load_none(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    from laminar.stack.init import init
    from laminar.store.store import Store

    init(folder)
    Store.open(folder / ".laminar")
    program = f"""
        from laminar.cli import main
        sys.argv = ["laminar", *{line.split()!r}]
        try:
            main()
        except SystemExit as left:
            assert not left.code, left.code
    """
    assert loaded("\n".join(part[8:] for part in program.splitlines()), folder) == []


def test_importing_laminar_is_light() -> None:
    assert loaded("import laminar, laminar.cli", heavy=("torch", "numpy", "rich", "fsspec", "tomlkit", "PIL")) == []


def loaded(program: str, folder: Path | None = None, heavy: tuple[str, ...] = ("torch",)) -> list[str]:
    """Which of the heavy libraries a program loaded."""
    tail = f"\nprint('loaded', [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + program + tail], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[str] = ast.literal_eval(done.stderr.splitlines()[-1].removeprefix("loaded "))
    return found


def texts() -> Iterator[Path]:
    yield from (path for path in REPOSITORY.iterdir() if path.is_file() and path.suffix in TEXTS)
    for part in PARTS:
        for path in (REPOSITORY / part).rglob("*"):
            hidden = {"__pycache__", ".laminar"} & set(path.parts)
            if path.is_file() and path.suffix in TEXTS and not hidden:
                yield path


def test_no_file_names_a_place_on_one_machine() -> None:
    # Written in pieces, so that this file does not find itself.
    places = ["/" + "work/", "/" + "root/", "file:" + "///", "C:" + "\\Users"]
    if len(REPOSITORY.parts) > 3:
        places.append(str(REPOSITORY))
    found = [
        f"{path.relative_to(REPOSITORY)}: {place}"
        for path in texts()
        for place in places
        if place in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_the_version_is_said_once() -> None:
    version = PYPROJECT["project"]["version"]
    assert laminar.__version__ == version
    assert f"## {version}" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_extras_are_documented() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    for extra in PYPROJECT["project"]["optional-dependencies"]:
        assert f"`{extra}`" in readme, f"README.md does not say what the extra {extra} is for"


def test_messages_use_codes_of_the_catalogue() -> None:
    """A code in the source that the catalogue has not would be a ValueError in the user's face."""
    used = {code for path in SOURCE.rglob("*.py") for code in re.findall(r'"(L\d{3})"', path.read_text())}
    assert used <= set(CATALOGUE)


def test_test_files_have_names_of_their_own() -> None:
    names: dict[str, Path] = {}
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        assert path.name not in names, f"{path} and {names[path.name]}"
        names[path.name] = path


def test_hooks_need_no_network() -> None:
    text = (REPOSITORY / ".pre-commit-config.yaml").read_text()
    assert set(re.findall(r"repo: (\S+)", text)) == {"local"}
    assert set(re.findall(r"language: (\S+)", text)) == {"system"}
    assert {"ruff check", "ruff format", "import contracts", "mypy"} == set(re.findall(r"name: (.+)", text))
