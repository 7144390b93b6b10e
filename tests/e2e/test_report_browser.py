"""The page of an experiment in real Chromium: wide and narrow, light and dark, pointed at, enlarged, sorted, printed; off the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.experiments.pictures.timelines import Timeline
from laminar.experiments.report.compose import compose
from laminar.experiments.report.html import to_html
from laminar.experiments.view import view
from tests.e2e import chromium
from tests.e2e.chromium import NARROW, WIDE, Browser
from tests.pure.experiments import made_up_experiments

pytestmark = [
    pytest.mark.skipif(bool(chromium.there_is_one()), reason=str(chromium.there_is_one())),
    pytest.mark.xdist_group("chromium"),
]
STAGES = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 20"><rect width="80" height="9" fill="#08c"/></svg>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One with everything in it, and one with text that would do harm."""
    folder = tmp_path_factory.mktemp("pages")
    for kind in ("batches", "nasty"):
        document = compose(view(*getattr(made_up_experiments, kind)()), timelines=[Timeline("stages-1", "pipeline", STAGES)])
        (folder / f"{kind}.html").write_text(to_html(document), encoding="utf-8")
    return {path.stem: path.as_uri() for path in folder.iterdir()}


def shown(browser: Browser, css: str) -> list[bool]:
    """Of each element, whether it takes room."""
    found: list[bool] = browser.run("return [...document.querySelectorAll(arguments[0])].map(e => e.getClientRects().length > 0)", css)
    return found


def mouse(browser: Browser, kind: str, x: float, y: float, **more: Any) -> None:
    browser.told("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


@pytest.mark.parametrize(
    ("kind", "size", "dark"), [("batches", WIDE, False), ("batches", NARROW, True), ("nasty", NARROW, False), ("nasty", WIDE, True)]
)
def test_a_page_fits_and_can_be_read_and_asks_nothing_of_any_network(
    browser: Browser, pages: dict[str, str], kind: str, size: tuple[int, int], dark: bool
) -> None:
    browser.look(dark=dark, size=size)
    browser.open(pages[kind], "footer")
    assert browser.value("document.documentElement.scrollWidth") <= size[0]  # nothing to push aside
    wide, narrow = shown(browser, "figure.picture svg.wide"), shown(browser, "figure.picture svg.narrow")
    assert wide and not any(narrow if size == WIDE else wide) and all(wide if size == WIDE else narrow)
    light = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(json.loads(light.replace("rgb(", "[").replace(")", "]"))) < 200) == dark
    assert browser.pale() == []
    fetched = browser.value("performance.getEntriesByType('resource').map(e => e.name).filter(name => !name.startsWith('data:'))")
    assert fetched == []
    assert browser.value("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
    assert browser.complaints() == []


def test_a_picture_says_what_is_pointed_at(browser: Browser, pages: dict[str, str]) -> None:
    browser.look()
    browser.open(pages["batches"], "figure.picture")
    place = browser.run("""
        const svg = document.querySelector("svg.wide[data-hints]");
        svg.scrollIntoView({block: "center"});
        const [x, y, text] = JSON.parse(svg.dataset.hints)[0];
        const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        return [at.x, at.y, text];""")
    assert browser.value("document.querySelector('#told').hidden")
    mouse(browser, "mouseMoved", place[0] + 2, place[1])
    assert browser.until("!document.querySelector('#told').hidden")
    assert browser.value("document.querySelector('#told').textContent") == place[2]
    box = browser.value("(r => [r.left, r.right, innerWidth])(document.querySelector('#told').getBoundingClientRect())")
    assert box[0] >= 0 and box[1] <= box[2]
    mouse(browser, "mouseMoved", 2, 2)
    assert browser.until("document.querySelector('#told').hidden")
    assert browser.complaints() == []


def test_a_picture_is_enlarged_and_put_back(browser: Browser, pages: dict[str, str]) -> None:
    browser.look()
    browser.open(pages["batches"], "figure.picture > button")
    whole = browser.value("document.querySelector('svg.wide').getAttribute('viewBox')")
    browser.run("document.querySelector('figure.picture > button').click()")
    assert browser.until("document.querySelector('dialog[open] svg.wide')")
    middle = browser.value(
        "(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector('dialog svg').getBoundingClientRect())"
    )
    mouse(browser, "mouseWheel", *middle, deltaX=0, deltaY=-240)
    assert browser.until(f"document.querySelector('dialog svg').getAttribute('viewBox') !== {json.dumps(whole)}")
    browser.press("\ue00c")  # Escape
    assert browser.until("!document.querySelector('dialog')")
    assert browser.value("document.querySelector('figure.picture svg.wide').getAttribute('viewBox')") == whole
    assert browser.complaints() == []


def test_a_table_is_sorted_by_a_click(browser: Browser, pages: dict[str, str]) -> None:
    browser.look()
    browser.open(pages["batches"], "table.stack th button")
    column = (
        """[...document.querySelector("table.stack").tBodies[0].rows].map(row => parseFloat(row.cells[1].querySelector("b").textContent))"""
    )
    click = "document.querySelectorAll('table.stack')[0].querySelectorAll('th button')[1].click()"
    browser.run(click)
    up = browser.value(column)
    known = [one for one in up if one is not None]
    assert len(known) > 5 and known == sorted(known)
    assert browser.value("document.querySelectorAll('table.stack th')[1].getAttribute('aria-sort')") == "ascending"
    browser.run(click)
    assert [one for one in browser.value(column) if one is not None] == sorted(known, reverse=True)


def test_paper_has_what_is_folded_on_the_screen(browser: Browser, pages: dict[str, str], tmp_path: Path) -> None:
    browser.look()
    browser.open(pages["batches"], "details.card")
    folded = "[...document.querySelectorAll('details')].map(one => one.open)"
    assert not any(browser.value(folded))
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert all(browser.value(folded))
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not any(browser.value(folded))
    assert len(browser.told("Page.printToPDF")["data"]) > 10_000
