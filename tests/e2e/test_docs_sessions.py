"""README, tutorial and how-to pages: the commands they show run in an empty folder, and print what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_console import DOCS, REPOSITORY, Command, Session, blocks, commands, form, missing

HOW_TO = sorted(DOCS.glob("how-to-*.md"))


def test_the_readme_session(tmp_path: Path) -> None:
    page = REPOSITORY / "README.md"
    first = next(block for block in blocks(page) if block.language == "console")
    assert "cached" in first.text, "the first screen shows a layer that was reused"
    assert "1 layer reused" in first.text
    Session(tmp_path / "empty", tmp_path / "home").follow(commands(page))


def test_the_readme_shows_the_two_commands_first() -> None:
    text = (REPOSITORY / "README.md").read_text()
    assert 0 < text.index("```console") < text.index("make demo") < text.index("make test") < text.index("\n## ")


def test_the_tutorial(tmp_path: Path) -> None:
    session = commands(DOCS / "tutorial-first-stack.md")
    verbs = {word for command in session for word in command.line.split()}
    assert {"init", "build", "status", "explain", "rollback", "tag", "push", "pull", "evaluate", "predict"} <= verbs
    Session(tmp_path / "empty", tmp_path / "home", inside=True).follow(session)


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("page", [page for page in HOW_TO if commands(page)], ids=lambda page: page.stem)
def test_how_to_pages(page: Path, tmp_path: Path) -> None:
    """Each `## ` of a how-to page goes on where the one before it ended."""
    Session(tmp_path / "empty", tmp_path / "home", inside=True).follow(commands(page))


def test_how_to_own_data_and_models_stack(tmp_path: Path) -> None:
    """The pieces of that page make a stack that builds."""
    from laminar.stack.api import Stack

    page = DOCS / "how-to-own-data-and-models.md"
    for block in blocks(page):
        if block.language == "python":
            (tmp_path / block.text.splitlines()[0].removeprefix("# ")).write_text(block.text)
    parts = [block.text for block in blocks(page) if block.language == "toml" and "samples.npz" not in block.text]
    (tmp_path / "laminar.toml").write_text('[stack]\nname = "waves"\n' + "\n".join(parts))
    built = Stack.load(tmp_path / "laminar.toml").build().layers[-1]
    assert built.metrics["r2"] > 0.9


def test_the_readme_stack_is_the_template(tmp_path: Path) -> None:
    """README shows the stack that `laminar init` writes, without its comments."""
    import tomllib

    from laminar.stack.init import init

    init(tmp_path / "digits")
    shown = next(block.text for block in blocks(REPOSITORY / "README.md") if block.language == "toml")
    assert tomllib.loads(shown) == tomllib.loads((tmp_path / "digits" / "laminar.toml").read_text())


# The comparison itself: it must be able to fail.


def test_ids_times_and_figures_are_compared_by_form() -> None:
    assert form("head  2c9e06b74e49  built   0.9503   3.0 s") == form("head 7c5f1ac78634 built 0.1 20.8 s")
    assert form("head  2c9e06b74e49  built") != form("head  2c9e06b74e49  cached")
    assert form("cafe added") == "cafe added"


def test_a_line_that_was_not_printed_is_found() -> None:
    command = Command("laminar status", ["head  build", "…", "nothing to build"])
    assert missing(command, "head build\nother\nnothing to build\n") is None
    assert missing(command, "nothing to build\nhead build\n") == "nothing to build"
    assert missing(command, "head cached\n") == "head  build"
    assert missing(Command("x", ["one two …"]), "one two three\n") is None
    assert missing(Command("x", ["one two …"]), "one\n") == "one two …"


def test_an_error_in_a_page_stands_for_its_exit_code() -> None:
    assert Command("laminar build", ["error L601: the loss is nan"]).exit_code == 6
    assert Command("laminar build").exit_code == 0
