"""The pictures of the dashboard in docs/pictures: python -m tests.make_screenshots. Needs Debian's chromium and chromium-driver."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.demo_project import make
from tests.e2e.chromium import Browser, there_is_one
from tests.pure.dashboard.visitor import serving

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLOURS = 128  # of a palette: a page has few, and the files are a third of their size


def main() -> None:
    missing = there_is_one()
    if missing:
        raise SystemExit(f"{missing}: apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory() as made:
        folder = make(Path(made) / "digits", epochs=12, samples=1000)
        runs = {json.loads(path.read_bytes())["layer"]: path.parent.name for path in (folder / ".laminar/runs").glob("*/run.json")}
        browser = Browser()
        try:
            with serving(folder) as dashboard:
                browser.look(size=(1280, 760))
                browser.open(dashboard.url + "#/stack/digits%2Fodd", ".side .figures")
                browser.run("document.getElementById('tab-model').click()")
                browser.until("document.querySelector('.graph li') && document.querySelectorAll('.layer .badge').length >= 6")
                small(browser.picture(PICTURES / "dashboard-stack.png"))
                browser.look(size=(1280, 760), dark=True)
                browser.open(f"{dashboard.url}#/runs?run={runs['ten']}&run={runs['together']}&x=epoch", ".chart path.curve")
                browser.until("document.querySelectorAll('.chart').length > 4")
                small(browser.picture(PICTURES / "dashboard-runs.png"))
        finally:
            browser.close()


def small(path: Path) -> None:
    from PIL import Image

    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
