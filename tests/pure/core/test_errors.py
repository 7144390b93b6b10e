"""The catalogue: every code has a page, an exit code, and is used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from laminar.core.errors import CATALOGUE, DOCS, LaminarError, docs

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_has_a_page(code: str) -> None:
    text = (REPOSITORY / "docs" / "errors" / f"{code}.md").read_text()
    assert text.startswith(f"# {code} ")
    for part in ("## What happened", "## What was expected", "## How to fix it"):
        assert part in text


def test_every_page_has_a_code() -> None:
    pages = {page.stem for page in (REPOSITORY / "docs" / "errors").glob("L*.md")}
    assert pages == set(CATALOGUE)


def test_every_code_is_raised_somewhere() -> None:
    source = "\n".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py") if path.name != "errors.py")
    unused = [code for code in CATALOGUE if not re.search(rf'["\s]{code}\b', source)]
    assert unused == []


def test_a_code_outside_the_catalogue_is_refused() -> None:
    with pytest.raises(ValueError, match="L999"):
        LaminarError("L999", "nothing")


@pytest.mark.parametrize(
    ("code", "exit_code"), [("L003", 2), ("L101", 2), ("L203", 2), ("L303", 3), ("L401", 4), ("L601", 6), ("L900", 70)]
)
def test_exit_codes_go_by_kind(code: str, exit_code: int) -> None:
    assert LaminarError(code, "x").exit_code == exit_code


def test_docs_are_cited_where_everybody_can_read_them() -> None:
    """A wheel has no docs: only links, to pages that exist."""
    assert tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["urls"]["Documentation"] == DOCS
    assert docs("ref-store.md") == f"{DOCS}/ref-store.md"
    sources = [path for path in (REPOSITORY / "src").rglob("*") if path.suffix in (".py", ".toml", ".md")]
    for path in sources:
        text = path.read_text()
        assert not re.findall(r"(?<!main/)docs/[\w-]+\.md", text), path
        for page in re.findall(r"""(?:docs\(["']|tree/main/docs/)([\w/-]+\.md)""", text):
            assert (REPOSITORY / "docs" / page).is_file(), f"{path} cites {page}"
