"""The command line reads words and paths by itself: what it reads is what typer would, without what typer loads for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from laminar.cli.help import VERBS
from laminar.cli.plain import PlainCommand, PlainGroup
from laminar.stack.init import init
from laminar.store.store import Store

LINES = [
    "",
    "--word w --path a/b",
    "--word=  --many x --many y",
    "one two three --flag",
    "--number 7",
    "--number 0",
    "--number seven",
    "--unknown",
    "--word",
    "--help",
    "-- --word",
]


def app_of(command: Any, group: Any) -> tuple[typer.Typer, list[Any]]:
    seen: list[Any] = []
    app = typer.Typer(add_completion=False, rich_markup_mode=None, cls=group)

    @app.callback()
    def top(folder: Annotated[Path | None, typer.Option("-C")] = None) -> None:
        seen.append(folder)

    @app.command(cls=command)
    def verb(
        words: Annotated[list[str] | None, typer.Argument()] = None,
        word: Annotated[str, typer.Option()] = "default",
        path: Annotated[Path, typer.Option()] = Path("here"),
        many: Annotated[list[Path] | None, typer.Option()] = None,
        number: Annotated[int | None, typer.Option(min=1)] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        seen.append((words, word, path, many, number, flag))

    return app, seen


def outcome(line: str, command: Any, group: Any) -> Any:
    app, seen = app_of(command, group)
    try:
        app(["-C", "there", "verb", *line.split()], standalone_mode=False)
    except Exception as error:
        return type(error).__name__, getattr(error, "message", str(error))
    return seen


@pytest.mark.parametrize("line", LINES)
def test_values_are_those_that_typer_gives(line: str) -> None:
    from typer.core import TyperCommand, TyperGroup

    assert outcome(line, PlainCommand, PlainGroup) == outcome(line, TyperCommand, TyperGroup)


@pytest.mark.parametrize(
    "line", ["--help", "status --json", "build --dry-run --json", "build head --dry-run --json", "log head", "init other"]
)
def test_verbs_load_no_validators(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    init(folder)
    Store.open(folder / ".laminar")
    program = (
        "import sys\nfrom laminar.cli import main\n"
        f"sys.argv = ['laminar', *{line.split()!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'pydantic', 'rich', 'filelock', 'email', 'importlib.metadata'} & set(sys.modules)\n"
        "sys.exit(f'loaded {sorted(loaded)}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_torch_is_known_by_its_version_without_being_loaded() -> None:
    import importlib.metadata

    from laminar.stack.key import environment

    assert environment("strict")["torch"] == importlib.metadata.version("torch")


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_help_is_the_same_with_and_without_typer(columns: int) -> None:
    def printed(*words: str) -> str:
        env = {**os.environ, "COLUMNS": str(columns)}
        done = subprocess.run([sys.executable, "-m", "laminar", *words], env=env, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    page = printed("--help")
    assert page == printed("-h") == printed("-C", ".", "--help")
    assert max(map(len, page.splitlines())) <= max(columns, 60)
    for verb, (_, line) in VERBS.items():
        assert f"  {verb} " in page and line.split()[0] in page


def test_help_waits_for_no_library() -> None:
    program = (
        "import sys\nfrom laminar.cli import main\nsys.argv = ['laminar', '--help']\nmain()\n"
        "sys.exit('typer is loaded' if {'typer', 'inspect', 'msgspec'} & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=60)


def test_a_reader_that_has_seen_enough_of_the_help_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([sys.executable, "-m", "laminar", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
