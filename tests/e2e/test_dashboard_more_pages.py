"""Compare, Plan, Experiments, Grid and Kernels in real Chromium, on a store made by real builds and a grid that is really served."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.plan.kept_plans import answer, keep, place
from laminar.plan.ledger import Entry, Ledger
from laminar.store.store import Store
from laminar.train.splitting import Pipeline
from laminar.train.strategies import Downpour, Solo, Sync
from tests.e2e import chromium
from tests.e2e.chromium import NARROW, WIDE, Browser
from tests.pure.dashboard import made_experiment
from tests.pure.dashboard.visitor import Visitor, serving
from tests.pure.plan.test_price import priced

pytestmark = [
    pytest.mark.skipif(bool(chromium.there_is_one()), reason=str(chromium.there_is_one())),
    pytest.mark.xdist_group("chromium"),
]
SCREENS = Path(os.environ.get("LAMINAR_SCREENS", "build/screens"))
EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
EVIL = "<img src=x onerror=alert(1)>\"'&"
OVER = ("inside",)  # texts on bars, whose ground the measure of contrast does not see


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def project(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With plans of made-up machines, a ledger, kernels (one of them wrong), and a damaged plan."""
    folder = shutil.copytree(demo, tmp_path_factory.mktemp("more") / "digits")
    store = Store.open(folder / ".laminar")
    plans = [priced(how) for how in (Pipeline(stages=2, microbatches=4), Sync(workers=2), Downpour(workers=2), Solo())]
    told = {
        "machine": EVIL,
        "conclusion": "pipeline with 2 workers is fastest",
        "to_target": "a guess",
        "notes": [EVIL],
        "measured": {1: 0.004},
    }
    assert not keep(store, answer("digits", "ten", "plan", plans, **told))
    assert not keep(store, answer("digits", "odd", "auto", plans[:2], **told))
    place(store, "digits", "odd").write_bytes(b'{"format": 1}')
    made_experiment.make(store, title=EVIL)
    for name in ("leaky.c", "convolution.c"):
        shutil.copy(EXAMPLES / name, folder / name)
    (folder / "wrong.c").write_text("void kernel(int i, int n, const float x[n], float y[n]) {\n    y[0] = x[i + 1];\n}\n")
    (folder / "broken.c").write_text(f"void kernel(int i, int n) {{ /* {EVIL} */ malloc(3); }}\n")
    return folder


@pytest.fixture(scope="module")
def address(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    ledger = Ledger.open(path)
    for number, kind in enumerate(("sync", "solo", "downpour")):
        ledger.add(
            Entry(
                time.time(),
                "desk",
                "2.13",
                "ten",
                "d" * 64,
                f'{{"kind":"{kind}"}}',
                kind,
                2,
                32,
                0.004,
                0.004 + number / 1000,
                0.003 + number / 500,
            )
        )
    ledger.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINAR_LEDGER", str(path))
        with serving(project) as dashboard:
            yield dashboard.url


PAGES = {
    "compare-choose": (".page-compare ul a", "#/compare"),
    "compare": (".page-compare .tensors table", "#/compare?layer=odd&layer=fine&layer=ten"),
    "plan": (".page-plan svg.timeline .work", "#/plan/ten"),
    "plan-none": (".page-plan .command", "#/plan/fine"),
    "experiments": (".page-experiments .picture svg.drawn", "#/experiments/width"),
    "grid-none": (".page-grid .command", "#/grid"),
    "kernels": (".page-kernels .circuit svg", "#/kernels/convolution.c"),
    "kernels-wrong": (".page-kernels .note.bad", "#/kernels/wrong.c"),
}


def quiet(browser: Browser) -> list[str]:
    """What the console complains of, but for the answer 422 of what is known not to be there."""
    return [one for one in browser.complaints() if "status of 4" not in one]


def readable(browser: Browser, name: str, look: str) -> None:
    browser.until("window.shifts !== undefined && performance.now() > 300")
    browser.picture(SCREENS / f"{name}-{look}.png")
    assert [one for one in browser.pale() if one[2] not in OVER] == [], look
    assert browser.value("window.shifts") < 0.05, f"{look}: the page jumped"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth + 1"), f"{look}: wider than the screen"
    assert browser.value("document.querySelectorAll('img[src=x]').length") == 0
    assert quiet(browser) == [], look


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_readable_and_still_and_the_console_is_quiet(browser: Browser, address: str, name: str) -> None:
    wait, where = PAGES[name]
    for look, size, dark in (("light", WIDE, False), ("dark", WIDE, True), ("narrow", NARROW, False)):
        browser.look(dark=dark, size=size)
        browser.open(address + where, wait)
        readable(browser, name, look)


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    browser.look()
    browser.open(address, ".layer")
    browser.complaints()
    return browser


def text(page: Browser, selector: str) -> str:
    found: str = page.value(f"document.querySelector({selector!r}).innerText")
    return found


def test_layers_are_compared_and_asked_about_samples(page: Browser) -> None:
    page.go("#/compare", ".page-compare ul a")
    page.run("document.querySelector('.page-compare ul a').click()")
    page.until("document.querySelectorAll('.page-compare .head').length >= 2 && document.querySelector('.tensors table')")
    page.go("#/compare?layer=digits/odd&layer=digits/fine", ".tensors table")
    words = text(page, "main")
    assert "train.lr" in words and "train.optimizer" in words and "features.0" in words
    page.run("document.querySelector('.page-compare .panel:last-child button.main').click()")
    page.until("document.querySelector('.judged progress') || document.querySelector('.confusion')")
    page.until("document.querySelectorAll('.confusion').length === 2", 60)
    assert page.value("[...document.querySelectorAll('.sample img')].every(i => i.src.startsWith('data:image/png'))")
    assert page.value("document.querySelectorAll('.sample').length") > 3
    assert [one for one in page.pale() if one[2] not in OVER] == []
    page.picture(SCREENS / "compare-answers.png")
    page.run("location.hash = '#/compare?layer=digits/odd&layer=nobody'")
    assert "L006" in page.until("document.querySelector('.trouble')?.innerText")
    assert quiet(page) == []


def test_a_plan_is_chosen_by_keys_and_shows_its_timeline(page: Browser) -> None:
    page.go("#/plan/ten", "svg.timeline .work")
    assert EVIL in text(page, "main") and "pipeline with 2 workers is fastest" in text(page, "main")
    assert "measured 4.00 ms" in text(page, "table.plans")
    assert page.value("document.querySelectorAll('.timeline .name').length") == 2
    page.run("document.querySelector('table.plans tbody tr').focus()")
    page.press("j", "j", "\ue007")
    page.until("document.querySelector('.of-plan').innerText.includes('downpour')")
    assert "no timeline" in text(page, "main") and page.value("!document.querySelector('svg.timeline')")
    assert "3 predictions" in text(page, "main") and "Kendall" in text(page, "main")
    page.go("#/plan/odd", ".trouble")
    assert "laminar verify --repair" in text(page, ".trouble")
    page.until("document.querySelector('main').innerText.includes('Predicted against measured')")
    assert quiet(page) == []


def test_an_experiment_is_read_in_per_cent_and_as_measured(page: Browser) -> None:
    page.go("#/experiments/width", ".figures-table")
    words = text(page, "main")
    assert EVIL in words and "20 of 20 trials" in words and "1 failed" in words and f"the loss is not finite: {EVIL}" in words
    assert "100.0 %" in text(page, ".figures-table") and "published 118.0 %" in text(page, ".figures-table")
    page.run("[...document.querySelectorAll('.switch button')].find(b => b.innerText === 'as measured').click()")
    page.until("document.querySelector('.figures-table').innerText.includes('0.8')")
    assert page.value("document.querySelectorAll('.ranges .range').length") == 12, "three measures of four variants"
    page.run("[...document.querySelectorAll('.switch button')].find(b => b.innerText === 'by time').click()")
    page.until("[...document.querySelectorAll('.plot .label')].some(t => t.textContent === 'seconds of training')")
    drawn = page.until("[...document.querySelectorAll('.picture svg.drawn')].map(svg => svg.getAttribute('aria-label')).join(' ')")
    assert "Neurons" in drawn or "neurons" in drawn
    first = "document.querySelector('.picture svg.drawn')"
    before = page.value(f"getComputedStyle({first}.querySelector('text')).fill")
    page.press("t")
    assert page.value(f"getComputedStyle({first}.querySelector('text')).fill") != before, "it follows the page into the dark"
    page.press("t")
    page.run(f"localStorage.clear(); delete document.documentElement.dataset.theme; {first}.focus()")
    page.press("\ue014", "\ue014")  # arrows
    assert page.value("document.querySelector('.picture .readout').hidden") is False
    assert page.value("document.querySelector('.picture [aria-live]').textContent").strip()
    assert page.value(f"{first}.querySelectorAll('script, foreignObject, image').length") == 0
    assert quiet(page) == []


HOSTILE = """
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9" onload="window.bad = 1">
<script>window.bad = 1</script><style>* { display: none }</style>
<image href="http://elsewhere/x"/><use href="http://elsewhere/#a"/><use xlink:href="#mine"/>
<a href="javascript:window.bad = 1"><text>linked</text></a><foreignObject><p>inside</p></foreignObject>
<g onclick="window.bad = 1" style="fill: red; position: fixed; stroke: url(http://elsewhere/#b)" clip-path="url(#mine)">
<text x="1">&lt;b&gt;told&lt;/b&gt;</text></g></svg>
"""


def test_a_drawing_is_made_anew_of_what_does_no_harm(page: Browser) -> None:
    found = page.driver.execute_async_script(
        "const [text, done] = arguments; import('/static/drawing.js').then(m => {"
        " const made = m.drawing(text, 'a drawing'); document.querySelector('main').append(made); done(made.outerHTML); });",
        HOSTILE,
    )
    assert "fill: red" in found and 'clip-path="url(#mine)"' in found and 'href="#mine"' in found and "&lt;b&gt;told" in found
    assert not [word for word in ("elsewhere", "script", "onload", "onclick", "linked", "inside", "display", "fixed") if word in found]
    assert page.value("window.bad ?? null") is None and page.complaints() == []


def test_a_kernel_is_emulated_with_other_sizes_and_its_mistakes_are_marked(page: Browser) -> None:
    page.go("#/kernels/leaky.c", "table.source")
    before = text(page, "table.source")
    assert "256 B" in before
    page.run("document.querySelector('input[name=instances]').value = '128'; document.querySelector('form.sizes button').click()")
    page.until("document.querySelector('table.source').innerText.includes('512 B')")
    page.run("document.querySelector('.function').dispatchEvent(new FocusEvent('focus'))")
    assert page.until("document.querySelector('table.source tr.lit')?.id") == "line-3"
    page.run("document.querySelector('input[name=instances]').value = '9999999'; document.querySelector('form.sizes button').click()")
    page.until("document.querySelector('.trouble')?.innerText.includes('L702')")
    page.go("#/kernels/wrong.c", ".note.bad")
    assert "instance 63 reads x[64]" in text(page, "table.source") and "race" in text(page, "main")
    page.go("#/kernels/broken.c", ".trouble")
    assert "K07" in text(page, ".trouble") and EVIL in text(page, "table.source")
    assert quiet(page) == []


def test_a_grid_is_shown_as_its_own_server_shows_it(browser: Browser, project: Path, tmp_path: Path) -> None:
    from laminar.train.on_grid import Grid
    from tests.multi.grid.served import serving as grid_serving
    from tests.torch.grid.crowd import Crowd

    store = Store.open(tmp_path / ".laminar")
    folder = store.root / "grid"
    folder.mkdir()
    crowd = Crowd(
        ["honest"] * 3 + ["nan"], Grid(workers=2, rounds=50, local_steps=2, deadline=1e6), database=f"sqlite:///{folder / 'grid.db'}"
    )
    crowd.hall.now = time.time() - 60
    for _ in range(4):
        crowd.turn()
    crowd.hall.book.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with grid_serving(folder, daemons=False) as (server, url), serving(tmp_path) as dashboard, serving(elsewhere, grid=url) as other:
        visitor = Visitor(other).enter()
        assert visitor.get("/api/grid").json()["error"]["code"] == "L503", "whoever looks from elsewhere needs a token"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LAMINAR_GRID_TOKEN", server.secrets.view)
            assert visitor.get("/api/grid").json()["status"]["nodes"]["known"] == 4, "and the one that shows is enough"
        for look, size, dark in (("light", WIDE, False), ("dark", WIDE, True), ("narrow", NARROW, False)):
            browser.look(dark=dark, size=size)
            browser.complaints()
            browser.open(f"{dashboard.url}#/grid", ".grid-view article")
            readable(browser, "grid", look)
        words = text(browser, "main")
        assert "3 of 4 nodes are here" in words.replace("\n", " ") and "not finite" in words and "honest 0" in words and "banned" in words
        browser.until("document.querySelector('.page-grid [role=status]').innerText.includes(', at ')")
    browser.until("document.querySelector('.grid-view.stale') || document.getElementById('line').innerText")
    browser.complaints()


def test_without_anything_each_page_says_how_to_begin(browser: Browser, tmp_path: Path) -> None:
    browser.look()
    with serving(tmp_path) as dashboard:
        browser.complaints()
        commands: dict[str, Any] = {}
        for name in ("compare", "plan", "experiments", "grid", "kernels"):
            browser.open(f"{dashboard.url}#/{name}", f".page-{name} .command")
            commands[name] = text(browser, ".page .command code")
        assert commands == {
            "compare": "laminar build",
            "plan": "laminar init my-stack",
            "experiments": "laminar experiment run sweep.toml",
            "grid": "laminar grid serve",
            "kernels": "laminar kernel check leaky.c",
        }
        assert browser.complaints() == [] and not (tmp_path / ".laminar").exists(), "looking made nothing"
