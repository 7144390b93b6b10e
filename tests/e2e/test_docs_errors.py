"""Error pages: the bad example gives the error as printed there, and the good one does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_console import DOCS, Command, Session, blocks, commands

BAD, GOOD = "A bad example", "A good example"
PAGES = sorted((DOCS / "errors").glob("L*.md"))


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
    assert f"error {page.stem}:" in text


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("page", [page for page in PAGES if shown(page, BAD)], ids=lambda page: page.stem)
def test_the_bad_example_fails_as_printed(page: Path, tmp_path: Path) -> None:
    in_project(page, BAD, tmp_path).follow(shown(page, BAD))


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page, GOOD)], ids=lambda page: page.stem)
def test_the_good_example_works(page: Path, tmp_path: Path) -> None:
    in_project(page, GOOD, tmp_path).follow(shown(page, GOOD))


def in_project(page: Path, heading: str, folder: Path) -> Session:
    """A session among the example's files: laminar.toml, and Python files that name themselves in their first line."""
    session = Session(folder / "flowers-lab", folder / "home", inside=True)
    for block in blocks(page):
        if block.heading == heading and block.language == "toml":
            (session.folder / "laminar.toml").write_text(block.text)
        elif block.heading == heading and block.language == "python":
            name = re.match(r"# (\w+\.py)\n", block.text)
            assert name, f"{page.name}: a Python block begins with a comment that names its file"
            (session.folder / name[1]).write_text(block.text)
    return session
