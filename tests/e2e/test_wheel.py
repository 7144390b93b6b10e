"""The wheel, in an environment that has its declared run-time dependencies and nothing else.

Installing torch anew would take half a minute and a gigabyte. Instead the distributions that laminar's metadata asks for, and those
they ask for, are linked from this environment into a fresh one: an import that is not declared fails there as it would for a user.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    run([sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", folder, REPOSITORY], folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and its run-time dependencies."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, symlinks=True, with_pip=False)
    python = home / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel], home)
    site = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(home)}))
    for needed in closure(requirements(wheel)):
        for name in tops(needed):
            if not (site / name).exists():
                (site / name).symlink_to(Path(str(needed.locate_file(name))).resolve())
    return python.parent


def run(words: list[object], folder: Path) -> str:
    """What a command printed; it must end well, and may not see the environment the tests run in."""
    hidden = ("PYTHON", "LAMINAR_", "VIRTUAL_ENV", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def requirements(wheel: Path) -> list[Requirement]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    return [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]


def closure(wanted: list[Requirement]) -> list[Distribution]:
    """Everything that the requirements ask for, without extras."""
    found: dict[str, Distribution] = {}
    todo = list(wanted)
    while todo:
        requirement = todo.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            pytest.fail(f"{name} is required, but not installed here")
        todo += [Requirement(line) for line in found[name].requires or []]
    return list(found.values())


def tops(installed: Distribution) -> set[str]:
    """The names in site-packages that a distribution consists of."""
    first = {Path(str(file)).parts[0] for file in installed.files or []}
    return first - {"..", "__pycache__", "bin"}


def test_it_has_all_files_of_the_package_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    there = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "laminar").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == there
    assert "laminar/py.typed" in inside
    assert "laminar/data/sources/packaged/digits.npz" in inside
    for template in ("digits", "fashion-mnist", "folder"):
        assert {f"laminar/stack/templates/{template}/{file}" for file in ("laminar.toml", "models.py")} <= inside


def test_the_environment_is_a_strangers(fresh: Path, tmp_path: Path) -> None:
    """If this could import what is not declared, the tests below would prove nothing."""
    program = "import importlib.util as u; print([n for n in ('pytest', 'plotly', 's3fs', 'aiohttp', 'hypothesis') if u.find_spec(n)])"
    assert run([fresh / "python", "-c", program], tmp_path).strip() == "[]"
    place = run([fresh / "python", "-c", "import laminar; print(laminar.__file__)"], tmp_path)
    assert str(fresh.parent) in place


def test_version_and_help(fresh: Path, tmp_path: Path) -> None:
    from laminar import __version__
    from laminar.cli.verbs import VERBS

    assert run([fresh / "laminar", "--version"], tmp_path).strip() == f"laminar {__version__}"
    printed = run([fresh / "laminar", "--help"], tmp_path)
    assert [verb for verb in VERBS if f"  {verb} " not in printed] == []


def test_a_stack_builds_and_loads(fresh: Path, tmp_path: Path) -> None:
    run([fresh / "laminar", "init", "lab"], tmp_path)
    lab = tmp_path / "lab"
    assert "2 built" in run([fresh / "laminar", "build", "-q"], lab)
    status = json.loads(run([fresh / "laminar", "status", "--json"], lab))
    assert [layer["action"] for layer in status["layers"]] == ["cached", "cached"]
    program = "import laminar, torch; m = laminar.load('lab/head'); print(tuple(m(torch.zeros(3, 1, 8, 8)).shape), m.training)"
    assert run([fresh / "python", "-c", program], lab).strip() == "(3, 5) False"


def test_modules_that_only_some_verbs_need(fresh: Path, tmp_path: Path) -> None:
    """Optional libraries are imported when they are used, not when the module is."""
    modules = (f"laminar.{name}" for name in ("stack.files", "stack.mend", "stack.share", "stack.report", "store.remote"))
    run([fresh / "python", "-c", f"import {', '.join(modules)}"], tmp_path)
