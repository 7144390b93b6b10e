"""Chromium, for the tests of pages and for their pictures: Debian's, without a window. What it needs may be missing: see `there_is_one`."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = (1280, 860), (390, 844)

SHIFTS = """
window.shifts = 0;
new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifts += e.value; })
  .observe({type: "layout-shift", buffered: true});
"""

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


def there_is_one() -> str | None:
    """The reason why there is none, to skip by; None: there is one."""
    if not any(map(shutil.which, BROWSERS)) or shutil.which("chromedriver") is None:
        return "needs chromium and chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "needs selenium"
    return None


class Browser:
    """One window. It is never closed between tests: they only go to other addresses."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"):
            options.add_argument(word)
        options.add_argument(f"--window-size={WIDE[0]},{WIDE[1]}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(30)
        self.told("Page.addScriptToEvaluateOnNewDocument", source=SHIFTS)

    def told(self, what: str, **how: Any) -> Any:
        return self.driver.execute_cdp_cmd(what, how)

    def look(self, *, dark: bool = False, size: tuple[int, int] = WIDE) -> None:
        self.told("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.told("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 500)

    def open(self, url: str, wait: str | None = None) -> None:
        """A new document, even where only what follows the # differs."""
        self.driver.get("about:blank")
        self.driver.get(url)
        if wait:
            self.until(f"document.querySelector({json.dumps(wait)})")

    def go(self, place: str, wait: str) -> None:
        self.run(f"location.hash = {json.dumps(place)}")
        self.until(f"document.querySelector({json.dumps(wait)})")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def value(self, expression: str) -> Any:
        return self.run(f"return {expression}")

    def until(self, expression: str, seconds: float = 20.0) -> Any:
        """Wait until an expression is true; its value."""
        return until(lambda: self.value(f"({expression}) || null"), seconds, expression)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def complaints(self) -> list[str]:
        """What the console has said since it was last asked: errors and warnings."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def pale(self) -> list[Any]:
        """Texts that are hard to read."""
        found: list[Any] = self.run(CONTRAST)
        return found

    def picture(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))
        return path

    def whole(self, path: Path) -> Path:
        """The page from its top to its end."""
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = self.value("[innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.told("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def close(self) -> None:
        self.driver.quit()


def until(true: Callable[[], Any], seconds: float, what: str) -> Any:
    ends = time.monotonic() + seconds
    while True:
        found = true()
        if found:
            return found
        if time.monotonic() > ends:
            raise AssertionError(f"not true after {seconds:g} s: {what}")
        time.sleep(0.05)  # between two looks at another process
