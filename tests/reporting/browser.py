"""A headless Chromium for the tests: cut off from the network, with a record of all that it says and asks for."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

#: Seconds. Nothing takes long, but the machine may be busy.
PATIENCE = 60

_FLAGS = (
    "--headless",
    "--no-sandbox",  # which root cannot have; only pages of the tests are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--lang=en-US",
)


@contextlib.contextmanager
def running(folder: Path, *, served: bool = False) -> Iterator[Browser]:
    """A browser with a fresh profile in a folder; skips, and says why, where there can be none.

    With ``served`` it may ask a server of this test on the loopback address; else it is offline.
    """
    pytest.importorskip("selenium", reason="Selenium is not installed, so no page is opened in a browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None:
        pytest.skip("Chromium is not installed, so no page is opened in a browser")
    if chromedriver is None:
        pytest.skip("chromedriver is not installed, so no page is opened in a browser")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("no_proxy", "localhost,127.0.0.1")  # chromedriver is on this machine
        # Both paths are given, so selenium has nothing to look for or to download.
        driver = Chrome(options=options, service=ChromeService(executable_path=chromedriver))
        try:
            yield Browser(driver, folder / "downloads", offline=not served)
        finally:
            driver.quit()


class Browser:
    """One window, used by one test after the other."""

    def __init__(self, driver: Any, downloads: Path, *, offline: bool = True) -> None:
        self.driver = driver
        self.downloads = downloads
        driver.set_page_load_timeout(PATIENCE)
        driver.set_script_timeout(PATIENCE)
        self.cdp("Network.enable")
        self.cdp(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )
        downloads.mkdir()
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, parameters)

    def open(
        self, path: Path, *, width: int = 1200, scheme: str = "light", media: str = "", script: bool = True
    ) -> None:
        """Open a file from disk and wait until its script is done."""
        self.driver.get("about:blank")
        self.console(), self.requests()
        self.cdp("Emulation.setScriptExecutionDisabled", value=not script)
        self.resize(width)
        self.look(scheme=scheme, media=media)
        self.driver.get(path.as_uri())
        if script:
            self.wait(lambda: self.run("return document.documentElement.dataset.ready === 'yes'"))

    def resize(self, width: int) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )

    def look(self, *, scheme: str = "light", media: str = "") -> None:
        """What the reader prefers, and whether it is on paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def press(self, *keys: str) -> None:
        """On whatever has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def tab_to(self, selector: str, *, most: int = 80) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(most):
            self.press("\ue004")
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return
        raise AssertionError(f"{selector} is not reached with the Tab key")

    def texts(self, selector: str) -> list[str]:
        """What the elements say, whether they are in sight or not."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )

    def style(self, selector: str, name: str) -> str:
        return self.run(
            "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name
        )

    def visible(self, selector: str) -> bool:
        """Whether any of the elements takes up space."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].some((e) => e.checkVisibility())", selector
        )

    def table(self) -> list[list[str]]:
        """The text of the table of groups, cell by cell, without the line of the whole field."""
        return self.rows("#table tbody tr:not(.whole)")

    def rows(self, selector: str) -> list[list[str]]:
        """The text of some rows, cell by cell."""
        return self.run(
            f"return [...document.querySelectorAll('{selector}')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
        )

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.run("const page = document.documentElement; return page.scrollWidth - page.clientWidth")

    def colours(self, selector: str) -> Counter[str]:
        """How many pixels of an element have which colour, at twice the size."""
        from matplotlib.image import imread

        box = self.run(
            "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return {x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height}",
            selector,
        )
        shot = self.cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**box, "scale": 2}
        )
        pixels = imread(io.BytesIO(base64.b64decode(shot["data"])), format="png")[..., :3]
        codes = (255 * pixels).round().astype(int) @ [65536, 256, 1]
        found, counts = np.unique(codes, return_counts=True)
        return Counter({f"#{rgb:06x}": n for rgb, n in zip(found.tolist(), counts.tolist(), strict=True)})

    def pdf(self) -> bytes:
        return base64.b64decode(self.driver.print_page())

    def console(self) -> list[str]:
        """Warnings and errors since the last call."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call; not what the policy of a page held back."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        held = {
            event["params"]["requestId"]
            for event in events
            if event["method"] == "Network.loadingFailed" and event["params"].get("blockedReason") == "csp"
        }
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent" and event["params"]["requestId"] not in held
        ]
