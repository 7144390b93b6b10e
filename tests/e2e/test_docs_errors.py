"""Error pages: the bad example gives the error as printed there, and the good one does not."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs_console import DOCS, Command, blocks, commands, missing

BAD, GOOD = "A bad example", "A good example"
PAGES = sorted((DOCS / "errors").glob("L*.md"))
PLACE = "~/flowers-lab"  # stands for the folder the example is run in


def shown(page: Path, heading: str) -> list[Command]:
    """The commands of an example; one that shows only a stack file is asked for its status."""
    found = commands(page, heading)
    if not found and any(block.language == "toml" and block.heading == heading for block in blocks(page)):
        return [Command("laminar status")]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_a_bad_and_a_good_example(page: Path) -> None:
    headings = [block.heading for block in blocks(page)]
    assert BAD in headings
    assert GOOD in headings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_bad_example_shows_this_error(page: Path) -> None:
    text = "\n".join(block.text for block in blocks(page) if block.heading == BAD and block.language in ("console", "text"))
    assert f"error {page.stem}:" in text or page.stem == "L012"


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page, BAD)], ids=lambda page: page.stem)
def test_the_bad_example_fails_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_example(page, BAD, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page, GOOD)], ids=lambda page: page.stem)
def test_the_good_example_works(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_example(page, GOOD, tmp_path, monkeypatch, capsys)


def run_example(page: Path, heading: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder / "flowers-lab"
    folder.mkdir()
    set_up(page, heading, folder)
    monkeypatch.chdir(folder)
    for command in shown(page, heading):
        code, printed = run(command.line, monkeypatch, capsys)
        printed = printed.replace(str(folder), PLACE)
        assert code == command.exit_code, f"$ {command.line}\nleft with {code}, not {command.exit_code}:\n{printed}"
        line = missing(command, printed)
        assert line is None, f"$ {command.line}\ndid not print\n    {line}\nbut\n{printed}"


def set_up(page: Path, heading: str, folder: Path) -> None:
    """The example's files: laminar.toml, and Python files that name themselves in their first line."""
    for block in blocks(page):
        if block.heading == heading and block.language == "toml":
            (folder / "laminar.toml").write_text(block.text)
        elif block.heading == heading and block.language == "python":
            name = re.match(r"# (\w+\.py)\n", block.text)
            assert name, f"{page.name}: a Python block begins with a comment that names its file"
            (folder / name[1]).write_text(block.text)


def run(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """`laminar …` in this process, because loading torch anew for each of these would take a minute; anything else in a shell."""
    from laminar.cli import main

    words = shlex.split(line)
    settings = {}
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    if words[0] != "laminar":
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(["bash", "-c", line], env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", words)
        for name, value in settings.items():
            patch.setenv(name, value)
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    out, err = capsys.readouterr()
    return code, out + err
