"""The pictures of the dashboard, made anew from a project that real commands build. Needs chromium and chromium-driver.

    python -m tests.make_screenshots                # those in docs/pictures
    python -m tests.make_screenshots --all FOLDER   # every page, light, dark and on a phone, from top to end: to be looked at

The second also runs an experiment and tries plans, so it takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import demo_project
from tests.e2e.chromium import NARROW, WIDE, Browser, there_is_one
from tests.pure.dashboard.visitor import serving

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLOURS = 256  # of a palette: a page has few, and the files are a third of their size
LOOKS = {"light": (WIDE, False), "dark": (WIDE, True), "narrow": (NARROW, False)}
PAGES = {  # name: place, and what is there when it is drawn
    "stack": ("#/stack", "document.querySelectorAll('.layer .badge').length >= 6"),
    "layer": ("#/stack/digits%2Fodd", "document.querySelector('.side .figures')"),
    "runs": ("#/runs?run={ten}&run={together}&x=epoch", "document.querySelectorAll('.chart path.curve').length > 6"),
    "compare-choose": ("#/compare", "document.querySelector('.page-compare ul a')"),
    "compare": ("#/compare?layer=odd&layer=fine&layer=ten", "document.querySelector('.tensors table')"),
    "compare-answers": ("#/compare?layer=odd&layer=fine", "document.querySelector('.tensors table')"),
    "plan": ("#/plan/strokes", "document.querySelector('svg.timeline .work') && document.querySelector('.two .chart')"),
    "plan-none": ("#/plan/fine", "document.querySelector('.page-plan .command')"),
    "experiments": ("#/experiments/rate", "document.querySelector('.picture svg.drawn') && !document.querySelector('.waits')"),
    "grid": ("#/grid", "document.querySelector('.page-grid .command, .grid-view article')"),
    "kernels": ("#/kernels/convolution.c", "document.querySelector('.circuit svg')"),
}


def main() -> None:
    missing = there_is_one()
    if missing:
        raise SystemExit(f"{missing}: apt-get install chromium chromium-driver, pip install selenium")
    words = argparse.ArgumentParser(prog="python -m tests.make_screenshots", description=__doc__.split("\n")[0] if __doc__ else None)
    words.add_argument("--all", metavar="FOLDER", type=Path, help="every page, in each look")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as made, own_records(Path(made)):
        folder = demo_project.make(Path(made) / "digits", epochs=12, samples=1000)
        if asked.all is not None:
            demo_project.add_more(folder)
        with window() as browser, serving(folder) as dashboard:
            if asked.all is None:
                for_docs(browser, dashboard.url, runs_of(folder))
            else:
                every_page(browser, dashboard.url, runs_of(folder), asked.all)


@contextmanager
def own_records(folder: Path) -> Iterator[None]:
    """What planners have measured on this machine is neither read nor added to; and where it was made is not in the picture."""
    before = dict(os.environ)
    os.environ |= {"HOME": str(folder), "LAMINAR_LEDGER": str(folder / "ledger.sqlite"), "LAMINAR_PROFILE": str(folder / "profile.sqlite")}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def window() -> Iterator[Browser]:
    browser = Browser()
    try:
        yield browser
    finally:
        browser.close()


def runs_of(folder: Path) -> dict[str, str]:
    """By layer."""
    return {json.loads(path.read_bytes())["layer"]: path.parent.name for path in (folder / ".laminar/runs").glob("*/run.json")}


def for_docs(browser: Browser, url: str, runs: dict[str, str]) -> None:
    browser.look(size=(1280, 760))
    browser.open(url + "#/stack/digits%2Fodd", ".side .figures")
    browser.run("document.getElementById('tab-model').click()")
    browser.until("document.querySelector('.graph li') && document.querySelectorAll('.layer .badge').length >= 6")
    small(browser.picture(PICTURES / "dashboard-stack.png"))
    browser.look(size=(1280, 760), dark=True)
    browser.open(f"{url}#/runs?run={runs['ten']}&run={runs['together']}&x=epoch", ".chart path.curve")
    browser.until("document.querySelectorAll('.chart').length > 4")
    small(browser.picture(PICTURES / "dashboard-runs.png"))


def every_page(browser: Browser, url: str, runs: dict[str, str], into: Path) -> None:
    for name, (place, ready) in PAGES.items():
        for look, (size, dark) in LOOKS.items():
            browser.look(size=size, dark=dark)
            browser.open(url + place.format(**runs), ".page")
            browser.until(ready, 150)
            if name == "compare-answers":
                browser.run("document.querySelector('.page-compare .panel:last-child button.main').click()")
                browser.until("document.querySelectorAll('.sample').length > 3", 150)
            print(f"wrote {browser.whole(into / f'{name}-{look}.png')}")


def small(path: Path) -> None:
    from PIL import Image

    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
