"""The page of an experiment: whole, escaped, alone in the world, and honest about what is not there."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser

import pytest

from laminar.core.page import LIGHT
from laminar.experiments.pictures.palette import TOKENS, TOKENS_DARK
from laminar.experiments.report.compose import compose
from laminar.experiments.report.html import to_html
from laminar.experiments.view import view
from tests.pure.experiments import made_up_experiments
from tests.pure.experiments.made_up_experiments import NASTY

KINDS = ("cores", "strategies", "nasty", "empty", "only_failed", "one_variant")
VOID = {"meta", "br", "img", "link", "input", "hr"}


@functools.cache
def page_of(kind: str) -> str:
    return to_html(compose(view(*getattr(made_up_experiments, kind)())))


class Reader(HTMLParser):
    """Notes what is open, and everything that a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.handlers: list[str] = []
        self.scripts = 0
        self.text = ""
        self.hints: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)

    def _look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster") and not (value or "").startswith(("#", "data:")):
                self.fetched.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.handlers.append(f"{tag} {name}")
            if name == "data-hints":
                self.hints.append(value or "")
            if name == "style":
                self.fetched += re.findall(r"url\((?!#)[^)]*\)", value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]} near {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


@functools.cache
def read(kind: str) -> Reader:
    found = Reader()
    found.feed(page_of(kind))
    found.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_asks_nothing_of_any_network(kind: str) -> None:
    found = read(kind)
    assert found.open == []
    assert found.fetched == []
    assert found.handlers == []
    assert found.scripts == 1
    assert len(found.ids) == len(set(found.ids))
    style = page_of(kind).partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style
    assert "http" not in page_of(kind).replace("http://www.w3.org/2000/svg", "")  # a name, which nothing is fetched by


def test_what_a_user_wrote_is_text_and_nothing_else() -> None:
    page = page_of("nasty")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "<script>alert(1)</script> $x_1$ **bold**" in read("nasty").text  # as it was written
    assert "日本語" in read("nasty").text


def test_figures_that_are_no_numbers_are_left_out() -> None:
    assert not re.search(r"\bnan\b|\binf\b", read("nasty").text)


@pytest.mark.parametrize(
    ("kind", "said"), [("empty", "No trial has been run yet"), ("only_failed", "No trial counts"), ("one_variant", "nothing to compare")]
)
def test_what_is_missing_is_said(kind: str, said: str) -> None:
    assert said in read(kind).text


def test_pictures_are_of_the_pages_colours() -> None:
    """Every colour in a picture is a variable, so that it follows the page into the dark."""
    for svg in re.findall(r"<svg.*?</svg>", page_of("strategies"), re.DOTALL):
        assert "var(--p-ink)" in svg
        inside = svg.partition(">")[2]  # what is said of points may have anything in it
        assert not re.search(r"#[0-9a-f]{6}\b", inside)
    assert set(TOKENS) == set(TOKENS_DARK)
    assert len(set(TOKENS.values())) == len(TOKENS)


def test_a_page_is_small() -> None:
    assert len(page_of("cores").encode()) < 400_000
    assert len(page_of("empty").encode()) < 40_000


def test_pictures_say_what_is_pointed_at() -> None:
    hints = [hint for text in read("cores").hints for hint in json.loads(text)]
    told = "\n".join(hint[2] for hint in hints)
    assert "2 workers: 1.8" in told  # the speed-up
    assert "published: 110.3 %" in told.replace("\u00a0", " ")
    assert all(isinstance(x, float) and isinstance(y, float) for x, y, _ in hints)


def test_every_figure_of_the_table_is_in_the_page() -> None:
    text = read("cores").text.replace("\u00a0", " ")
    for said in ("54.8 %", "the benchmark", "inside the noise", "refuted", "110.3 %", "others took 70 % of a core", "L602", "warm-up"):
        assert said in text
    assert "19 of 20 trials count" in text
    assert NASTY not in text


def test_the_card_is_the_background_of_pictures() -> None:
    """One step off white: the same to the eye, and told apart from it when colours become variables."""
    assert LIGHT["card"] == "#ffffff"
    assert TOKENS["p-card"] == "#fffffe"
