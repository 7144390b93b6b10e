"""The dashboard in real Chromium, on a store made by real builds: pages, keys, a live build, a killed one, and what is readable."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import demo_project, warm
from tests.e2e import chromium
from tests.e2e.chromium import NARROW, WIDE, Browser, until
from tests.pure.dashboard.visitor import serving

pytestmark = pytest.mark.skipif(bool(chromium.there_is_one()), reason=str(chromium.there_is_one()))
SCREENS = Path(os.environ.get("LAMINAR_SCREENS", "build/screens"))
EVIL = "<img src=x onerror=alert(1)>\"'&"


LONG = """
[[layer]]
name = "long"
model = "models:convnet"
args = { channels = [8, 8], classes = 10 }
data = "all"
train = { epochs = 4000, batch = 16, lr = 0.001, seed = 5, threads = 1 }
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def project(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a store, and two runs that went wrong: one that was killed, one whose events are damaged and have names that are HTML."""
    folder = shutil.copytree(demo, tmp_path_factory.mktemp("browser") / "digits")
    runs = folder / ".laminar" / "runs"
    source = next(path for path in runs.iterdir() if json.loads((path / "run.json").read_bytes())["layer"] == "strokes")
    lines = (source / "events.jsonl").read_bytes().splitlines(keepends=True)
    for name, layer, content in (
        ("dead0000dead0000", "killed", b"".join(lines[: len(lines) // 2]) + lines[-1][:30]),
        (
            "bad00000bad00000",
            EVIL,
            lines[0] + b"\x00garbage\n{}\n" + b"".join(lines[1:]) + json.dumps({"event": "note", "why": EVIL, "t": 1.0}).encode() + b"\n",
        ),
    ):
        (runs / name).mkdir()
        (runs / name / "events.jsonl").write_bytes(content)
        (runs / name / "run.json").write_text(json.dumps({"stack": "digits", "layer": layer, "key": name * 4}))
    return folder


@pytest.fixture(scope="module")
def address(project: Path) -> Iterator[str]:
    with serving(project) as dashboard:
        yield dashboard.url


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    browser.look()
    browser.open(address, ".layer")
    browser.complaints()
    return browser


PAGES = {
    "stack": (".layer .badge", "#/stack"),
    "layer": (".side .figures", "#/stack/digits%2Fodd"),
    "runs": (".chart path.curve", "#/runs"),
}


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_readable_and_still_and_the_console_is_quiet(browser, address, name):
    wait, place = PAGES[name]
    for look, size, dark in (("light", WIDE, False), ("dark", WIDE, True), ("narrow", NARROW, False)):
        browser.look(dark=dark, size=size)
        browser.open(address + place, wait)
        browser.until("window.shifts !== undefined && performance.now() > 300")
        browser.picture(SCREENS / f"{name}-{look}.png")
        assert browser.pale() == [], look
        assert browser.value("window.shifts") < 0.05, f"{look}: the page jumped"
        assert browser.value("document.documentElement.scrollWidth <= innerWidth + 1"), f"{look}: wider than the screen"
        assert browser.complaints() == [], look


def test_the_token_is_gone_from_the_address_and_a_reload_needs_none(page):
    assert "token" not in page.value("location.href")
    assert page.value("document.cookie") == "", "scripts do not see the cookie"
    page.driver.refresh()
    page.until("document.querySelector('.layer')")
    assert "token" not in page.value("performance.getEntriesByType('navigation')[0].name")


def test_the_stack_shows_branches_states_and_versions(page):
    page.until("document.querySelectorAll('.layer .badge').length >= 6")
    names = page.value("[...document.querySelectorAll('.layer')].map(row => row.dataset.ref)")
    assert names == [f"digits/{name}" for name in ("later", "together", "ten", "fine", "odd", "strokes")], "top first, branches together"
    words = page.value("Object.fromEntries([...document.querySelectorAll('.layer')].map(r => [r.dataset.ref, r.innerText]))")
    assert "never built" in words["digits/later"]
    assert "stale" in words["digits/fine"] and "0.02 -> 0.05" in words["digits/fine"]
    assert "rolled back" in words["digits/odd"] and "strokes:v1" in words["digits/strokes"]


def test_a_layer_is_opened_by_keys_and_says_everything(page):
    page.run("document.querySelector('.layer').focus()")
    page.press("j", "j", "j", "j", "\ue007")  # Enter
    page.until("document.querySelector('.side .figures')")
    assert page.value("document.querySelector('.side h2').innerText").startswith("odd")
    tabs = {}
    for tab in ("model", "tensors", "inputs", "history"):
        page.run(f"document.getElementById('tab-{tab}').click()")
        page.until("document.querySelector('#tab-body').innerText.length > 80")
        if tab == "model":
            page.until("document.querySelector('.graph li')")
        tabs[tab] = page.value("document.querySelector('#tab-body').innerText")
        page.picture(SCREENS / f"layer-{tab}.png")
        assert page.pale() == []
    assert "Conv2d" in tabs["model"] and "frozen" in tabs["model"] and "trained here" in tabs["model"]
    assert "head.weight" in tabs["tensors"].split("Shared with")[0] and "features.0.weight" in tabs["tensors"].split("Shared with")[1]
    assert "train.optimizer.lr" in tabs["inputs"] and "rollback" in tabs["history"]
    page.press("\ue00c")  # Escape
    page.until("document.querySelector('.side').hidden")
    assert page.value("document.activeElement.dataset.ref") == "digits/odd", "the focus is where it was"
    page.run("location.hash = '#/stack'")
    assert page.complaints() == []


def test_on_a_narrow_screen_an_opened_layer_begins_below_the_bar(page):
    page.look(size=NARROW)
    page.press("j", "j", "\ue007")
    page.until("document.querySelector('.side .figures')")
    top = "document.querySelector('.side').getBoundingClientRect().top"
    bar = "document.querySelector('.bar').getBoundingClientRect().bottom"
    page.until(f"scrollY > 0 && {top} >= {bar} && {top} < {bar} + 40", 5)
    page.go("#/runs", ".chart path.curve")
    assert page.value("scrollY") == 0, "another page is seen from its top"
    assert page.value("document.querySelector('.rail').scrollTop") == 0, "and so is its list, where what is chosen is in sight"
    page.go("#/kernels", ".page-kernels")
    link = page.value("document.querySelector('nav [aria-current]').getBoundingClientRect().toJSON()")
    assert link["left"] >= 0 and link["right"] <= NARROW[0], "and its name in the bar is in sight"
    assert page.complaints() == []


def test_going_to_another_version_and_tagging_ask_first(page, project):
    ref = project / ".laminar" / "refs" / "digits" / "odd.log"
    before = ref.read_bytes()
    page.go("#/stack/digits%2Fodd", ".side .figures")
    page.run("document.getElementById('tab-history').click()")
    page.until("document.querySelector('#tab-body button')")
    page.run("document.querySelector('#tab-body button').click()")
    page.until("document.querySelector('dialog[open]')")
    page.press("\ue00c")
    page.until("!document.querySelector('dialog[open]')")
    assert ref.read_bytes() == before, "nothing was done"
    page.run("document.querySelector('#tab-body button').click()")
    page.until("document.querySelector('dialog[open]')")
    page.run("document.querySelector('dialog button.main').click()")
    until(lambda: len(ref.read_bytes()) > len(before), 10, "the ref has moved")
    page.until("![...document.querySelectorAll('.layer')].some(row => row.innerText.includes('rolled back'))")
    now = json.loads((project / ".laminar/refs/digits/odd.json").read_bytes())["id"]
    page.until(f"document.querySelector('.side header code').title === '{now}'")
    page.run("document.getElementById('tab-about').click()")
    page.run("[...document.querySelectorAll('.side button')].find(b => b.innerText === 'Tag…').click()")
    page.until("document.querySelector('dialog[open] input')")
    page.run("document.querySelector('dialog input').value = 'odd:best'; document.querySelector('dialog button.main').click()")
    page.until("document.querySelector('[data-ref=\"digits/odd\"]').innerText.includes('odd:best')")
    assert page.complaints() == []


def test_runs_are_chosen_drawn_over_each_other_zoomed_and_saved(page):
    page.go("#/runs", ".chart path.curve")
    assert page.value("document.querySelectorAll('.run').length") == 8
    page.run("document.querySelectorAll('.run .box')[1].click()")
    page.until("document.querySelectorAll('.chip').length === 2")
    page.until("document.querySelectorAll('.chart .legend .key').length > 4")
    page.run("document.querySelector('[data-axis=time]').click()")
    page.until("document.querySelector('.chart .label').textContent === 'time'")
    from selenium.webdriver.common.action_chains import ActionChains

    plot = page.driver.find_element("css selector", ".chart .plot")
    ActionChains(page.driver).move_to_element(plot).perform()
    page.until("!document.querySelector('.chart .readout').hidden")
    assert page.value("document.querySelectorAll('.chart .readout .one').length") >= 2
    ActionChains(page.driver).move_to_element_with_offset(plot, -60, 0).click_and_hold().move_by_offset(90, 0).release().perform()
    page.until("!document.querySelector('.chart button[title^=\"show all\"]').disabled")
    ActionChains(page.driver).double_click(plot).perform()
    page.until("document.querySelector('.chart button[title^=\"show all\"]').disabled")
    page.run("document.querySelector('.chart .plot').focus()")
    page.press("\ue014", "\ue014")  # arrows
    assert "time" in page.until("document.querySelector('.chart [aria-live]').textContent")
    page.run("document.querySelector('.chart button[title=\"as a table\"]').click()")
    assert page.value("document.querySelectorAll('.chart .alternative tr').length") > 4
    page.run(
        "window.saved = []; const made = URL.createObjectURL;"
        "URL.createObjectURL = blob => { window.saved.push([blob.type, blob.size]); return made.call(URL, blob); };"
        "document.querySelectorAll('.chart button[title^=\"save as\"]').forEach((b, i) => { if (i < 3) b.click(); })"
    )
    kinds = page.until("window.saved.length === 3 && window.saved")
    assert {kind for kind, _ in kinds} == {"image/svg+xml", "image/png", "text/csv"} and all(size > 200 for _, size in kinds)
    assert page.complaints() == []


def test_a_run_that_was_killed_and_one_that_is_damaged_say_so_and_names_are_never_html(page):
    page.go("#/runs?run=dead0000dead0000", ".details .notice")
    assert "ended without a word" in page.value("document.querySelector('.details').innerText")
    assert "last seen" in page.value("document.querySelector('.details').innerText")
    page.go("#/runs?run=bad00000bad00000", ".details .notice.warn")
    page.until("document.querySelector('.details').innerText.includes('2 lines of its events could not be read')")
    assert EVIL in page.value("document.querySelector('.run.on').innerText") and EVIL in page.value(
        "document.querySelector('.details').innerText"
    )
    assert page.value("document.querySelectorAll('img[src=x]').length") == 0
    assert page.complaints() == []


def test_keys_go_everywhere(page):
    page.press("g", "r")
    page.until("location.hash.startsWith('#/runs')")
    page.press("?")
    assert "next and previous" in page.until("document.querySelector('dialog[open]')?.innerText")
    assert page.pale() == []
    page.press("\ue00c")
    page.until("!document.querySelector('dialog[open]')")
    page.press("t")
    page.until("document.documentElement.dataset.theme === 'dark'")
    page.press("t")
    page.run("localStorage.clear(); delete document.documentElement.dataset.theme")
    page.press("g", "s")
    page.until("location.hash === '#/stack'")


def test_a_curve_moves_while_a_build_trains_and_a_killed_build_is_said_to_be_dead(page, project):
    stack = project / "laminar.toml"
    before = stack.read_text()
    stack.write_text(before + LONG)
    page.go("#/stack", ".layer")
    build = warm.Popen([sys.executable, "-m", "laminar", "build", "long"], cwd=project, stdout=-3, stderr=-3)
    try:
        page.until(
            "[...document.querySelectorAll('.layer')].some(row => row.dataset.ref === 'digits/long' && row.innerText.includes('building'))"
        )
        page.picture(SCREENS / "stack-building.png")
        page.go("#/runs", ".run .badge.live")
        page.until("document.querySelector('.run.on b').innerText === 'long' && document.querySelector('.chart path.curve')")
        first = page.value("document.querySelector('.chart path.curve').getAttribute('d')")
        page.until(f"document.querySelector('.chart path.curve').getAttribute('d') !== {json.dumps(first)}")
        page.picture(SCREENS / "runs-live.png")
        run = page.value("document.querySelector('.run.on').dataset.run")
        page.go(f"#/compare?layer={run}&layer=strokes", ".page-compare .head .badge.live")
        assert "epochs 4000 3" in " ".join(page.value("document.querySelector('main').innerText").split()).replace("train.epochs", "epochs")
        page.until("document.querySelector('.page-compare .plots path.curve')")
        assert "It takes two layers" in page.value("document.querySelector('main').innerText"), "a run has no tensors yet"
        tested = page.value("document.querySelector('.page-compare .plots').innerText + document.querySelector('.sides').innerText")
        page.until(
            "document.querySelector('.page-compare .plots').innerText + document.querySelector('.sides').innerText !== "
            + json.dumps(tested)
        )
        page.picture(SCREENS / "compare-live.png")
        build.send_signal(signal.SIGKILL)
        build.wait(20)
        page.until("document.querySelector('.page-compare .head .badge.bad')?.innerText === 'ended'")
        page.go("#/runs", ".run")
        page.run(f"document.querySelector('[data-run=\"{run}\"]').click()")
        page.until("document.querySelector('.details .notice.bad')?.innerText.includes('ended without a word')")
        assert page.value("!document.querySelector('.run .badge.live')")
        assert page.complaints() == []
    finally:
        build.kill()
        build.wait()
        stack.write_text(before)


def test_an_empty_folder_and_an_unbuilt_stack_say_how_to_start(browser, tmp_path):
    browser.look()
    with serving(tmp_path) as dashboard:
        browser.complaints()
        browser.open(dashboard.url, ".start")
        assert "laminar init" in browser.value("document.querySelector('.start').innerText")
        assert browser.value("document.querySelector('.summary').innerText") == "", "no figures that will never come"
        browser.picture(SCREENS / "start.png")
        (tmp_path / "laminar.toml").write_text(demo_project.STACK.format(epochs=1, samples=50))
        (tmp_path / "models.py").write_text(demo_project.MODELS)
        browser.until("document.querySelector('.start')?.innerText.includes('nothing is built yet')")
        browser.until("document.querySelectorAll('.layer .badge').length === 5")
        browser.go("#/runs", ".start")
        (tmp_path / "laminar.toml").write_text("[stack\n")
        browser.go("#/stack", ".trouble")
        assert "L002" in browser.value("document.querySelector('.trouble').innerText")
        assert not (tmp_path / ".laminar").exists(), "looking made nothing"
    assert "422" in "".join(browser.complaints()), "the console tells of the refused request, and of nothing else"


def test_the_dashboard_may_end_and_come_back(browser, tmp_path, project):
    browser.look()
    with serving(project) as dashboard:
        browser.open(dashboard.url, ".layer")
    browser.until("document.getElementById('line').innerText.includes('no answer')")
    assert browser.value("document.querySelectorAll('.layer').length") == 6, "what was there is still there"
    browser.complaints()
