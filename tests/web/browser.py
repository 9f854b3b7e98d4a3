"""Debian's Chromium over WebDriver: what a page loads, what axe-core finds wrong with it, and how it looks."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.binaries import axe_script, browser
from sandbox.errors import SandboxError
from tests.waiting import SLOW, until

pytest.importorskip("selenium", reason="selenium is not installed; run: make setup")  # the suite without it is whole

from selenium import webdriver
from selenium.webdriver import ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.action_chains import ActionChains

WIDE, PHONE, PAPER = (1280, 900), (360, 740), (718, 1047)
"""Sizes of a window, in CSS pixels; of paper that of A4 inside margins of 1 cm."""
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which root cannot have; it reads nothing but our own pages
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_CHECKED = """
const done = arguments[arguments.length - 1];
axe.run(document, {preload: false, resultTypes: ["violations"], rules: {"target-size": {enabled: true}}}).then(
  (found) => done(found.violations.flatMap((one) => one.nodes.map((node) => {
    const why = node.any.concat(node.all, node.none).map((each) => each.message);
    return `${one.id}: ${node.target.join(" ")}: ${why.join("; ")}`;
  }))),
  (error) => done([String(error)]));
"""
_FOCUS = """
const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
const seen = box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight;
const told = one.getAttribute("aria-label") || one.textContent.trim().slice(0, 40) || one.id;
return [one.tagName.toLowerCase(), told, seen && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
"""


@dataclass(frozen=True, slots=True)
class Focus:
    """Where the keyboard is. is_visible: it stands in the window, with a mark around it."""

    tag: str
    told: str
    is_visible: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a page asked for since it was last asked. size: bytes that came, headers too."""

    addresses: list[str]
    size: int
    complaints: list[str]


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self._axe = axe_script()
        self.shown(WIDE)
        self._tell("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def open(self, address: str) -> None:
        self._driver.get(address)

    def shown(self, size: tuple[int, int], *, dark: bool = False, printed: bool = False) -> None:
        """From now on in a window of this size, light or dark, or as on paper."""
        width, height = size
        self._tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == PHONE
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])

    def found_wrong(self) -> list[str]:
        """What axe-core finds, and whether the page is wider than its window."""
        if not self.ask("return typeof axe !== 'undefined'"):
            self._driver.execute_script(self._axe)
        found: list[str] = self._driver.execute_async_script(_CHECKED)
        if wider := self.ask("return document.documentElement.scrollWidth - document.documentElement.clientWidth"):
            found += [f"the page is {wider} pixels wider than the window"] if wider > 0 else []
        return found

    def ask(self, script: str, *values: Any) -> Any:
        return self._driver.execute_script(script, *values)

    def wait(self, script: str, what: str) -> Any:
        return until(lambda: self.ask(script), what)

    @property
    def text(self) -> str:
        return str(self.ask("return document.body.innerText"))

    def press(self, *keys: str) -> Focus:
        """Keys one after the other; where the keyboard is then."""
        ActionChains(self._driver, duration=0).send_keys(*keys).perform()
        return Focus(*self.ask(_FOCUS))

    def clipboard(self) -> str:
        """What a page copied."""
        read = "navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))"
        return str(self._driver.execute_async_script(read))

    def loaded(self) -> Loaded:
        addresses, size = [], 0
        for line in self._logged("performance"):
            event = json.loads(line["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                addresses.append(str(event["params"]["request"]["url"]))
            elif event["method"] == "Network.responseReceived":
                size += int(event["params"]["response"]["encodedDataLength"])
            elif event["method"] == "Network.dataReceived":
                size += int(event["params"]["encodedDataLength"] or event["params"]["dataLength"])
        return Loaded(addresses, size, [str(one["message"]) for one in self._logged("browser")])

    def keep(self, file: Path) -> None:
        """A picture of the whole page."""
        size = self._tell("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self._tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(made["data"]))

    def _logged(self, kind: str) -> list[dict[str, Any]]:
        """What came since it was last asked for."""
        found: list[dict[str, Any]] = self._driver.get_log(kind)  # type: ignore[no-untyped-call]  # selenium's own
        return found

    def _tell(self, command: str, **values: Any) -> Any:
        return self._driver.execute_cdp_cmd(command, values)


def missing() -> str:
    """What is not installed, with the command that installs it; empty where nothing is missing."""
    try:
        browser()
        axe_script()
    except SandboxError as error:
        return str(error)
    return ""


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser of its own, without a profile, that reaches this machine alone. Raises SandboxError without one."""
    chromium, driver = browser()
    options = ChromeOptions()
    options.binary_location = chromium
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with webdriver.Chrome(options, ChromeService(driver)) as window:
        window.set_script_timeout(SLOW)
        window.set_page_load_timeout(SLOW)
        yield Browser(window)


TAB, ENTER = Keys.TAB, Keys.ENTER
