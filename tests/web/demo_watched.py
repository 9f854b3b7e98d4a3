"""`make test-browser`: the page is watched through a whole demo, in which every process is killed, the page's own too.

Pictures of each step are kept in artifacts/demo. Exit status 1 where the page did not show what was so, where axe-core
found something wrong with it, or where the demo found a difference.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sandbox.demo.migration import PROCESSES
from sandbox.demo.run import Demo, end, say, there_and_back
from sandbox.paths import PROJECT, run_dir
from sandbox.ports import HOST, free_port
from sandbox.process import Child
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.waiting import until
from tests.web.browser import PHONE, WIDE, Browser, opened
from tests.web.test_page import BYTES

T = TypeVar("T")
ADA = "canary-of-ada-4711"
PICTURES = PROJECT / "artifacts" / "demo"
_STAGE = "return document.querySelector('.stages .current')?.textContent || ''"
_BLOCKERS = "return [...document.querySelectorAll('#blockers tbody th')].map((one) => one.textContent)"
_LINK = "return document.getElementById('link').textContent"
STAGES = ("capturing", "copying", "catching up", "verified", "ready", "switched", "reversed", "finished")
"""That have to be seen; others may pass between two looks."""


class Watcher:
    """One page that stays open. seen: its stages, in their order. wrong: what is not as it should be."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.seen: list[str] = []
        self.wrong: list[str] = []
        self._browser = browser
        self._address = address
        self._pictures = 0

    def open(self) -> None:
        self._browser.loaded()
        self._browser.open(self._address)
        self.until(lambda: self.link == "Live", "the page to be live")
        if (size := self._browser.loaded().size) >= BYTES:
            self.wrong.append(f"the page has {size} bytes")
        self._browser.ask("document.body.dataset.since = 'the beginning'")

    @property
    def link(self) -> str:
        return str(self._browser.ask(_LINK))

    @property
    def blockers(self) -> list[str]:
        found: list[str] = self._browser.ask(_BLOCKERS)
        return found

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def met() -> bool:
            self._look()
            return condition()

        until(met, what)

    def during(self, work: Callable[[], T]) -> T:
        """What the work returns, which goes on in a thread while the page is looked at."""
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(work)
            while not running.done():
                self._look()
                time.sleep(0.5)  # the page itself looks every five seconds
            return running.result()

    def step(self, name: str) -> None:
        """A picture, and what axe-core says, also of a phone in the dark; the page was not loaded again meanwhile."""
        self._picture(name)
        self.wrong += [f"{name}: {one}" for one in self._browser.found_wrong()]
        self._browser.shown(PHONE, dark=True)
        self._picture(f"{name}-phone")
        self.wrong += [f"{name}, on a phone: {one}" for one in self._browser.found_wrong()]
        self._browser.shown(WIDE)
        if self._browser.ask("return document.body.dataset.since") != "the beginning":
            self.wrong.append(f"{name}: the page was loaded again")

    def _look(self) -> None:
        stage = str(self._browser.ask(_STAGE))
        if stage and stage != (self.seen[-1] if self.seen else ""):
            self.seen.append(stage)
            self._picture(f"stage-{stage.replace(' ', '-')}")

    def _picture(self, name: str) -> None:
        self._pictures += 1
        self._browser.keep(PICTURES / f"{self._pictures:02}-{name}.png")


def watched(box: Sandbox, directory: Path, browser: Browser, orders: int) -> list[str]:
    """What went wrong."""
    demo = Demo(box, directory, orders, pause=0.02)
    listen = f"{HOST}:{free_port()}"
    with demo.migration.config.open("a", encoding="utf-8") as config:
        config.write(f"web: {{listen: '{listen}', readers: {{ada: {ADA}}}}}\n")
    watcher = Watcher(browser, f"http://ada:{ADA}@{listen}/m/demo")
    demo.load()
    demo.prepare()
    try:
        demo.migration.wait(lambda: demo.migration.pid("web"), 60, "the page's server")
        until(lambda: "listening" in _logged(directory), "the page's server to listen")
        watcher.open()
        demo.start_writing()
        kills(demo, watcher)
        watcher.during(demo.copy)
        watcher.step("copied")
        target_away(box, watcher)
        watcher.during(demo.stop_writing)
        watcher.during(demo.drain)
        verified = watcher.during(demo.verify)
        watcher.until(lambda: watcher.seen[-1] == "verified", "the page to show a clean verification")
        watcher.step("verified")
        moves = watcher.during(lambda: there_and_back(demo))
        watcher.until(lambda: watcher.seen[-1] == "switched", "the page to show the last cutover")
        watcher.step("switched")
    finally:
        demo.migration.stop()
    end(demo.migration)
    the_end(demo, watcher, directory)
    missed = [f"the stage {one} was not seen" for one in STAGES if one not in watcher.seen]
    differences = int(verified["differences"]) + moves.differences
    say(f"stages seen: {', '.join(watcher.seen)}; pictures in {PICTURES}")
    return [*watcher.wrong, *missed, *moves.lost, *([f"{differences} differences"] if differences else [])]


def kills(demo: Demo, watcher: Watcher) -> None:
    """Each process of the stream, then the page's server: the page says so, and goes on by itself."""
    for process in PROCESSES:
        demo.migration.kill(process)
    watcher.during(lambda: time.sleep(6))  # one look of the page, whatever it finds: they are started again at once
    watcher.step("processes-killed")
    killed = demo.migration.kill("web")
    watcher.until(lambda: watcher.link.startswith("Not live"), "the page to say that it is not live")
    watcher.step("page-server-killed")
    watcher.until(lambda: watcher.link == "Live", "the page to be live again")
    if demo.migration.pid("web") == killed:
        watcher.wrong.append("the server of the page was not killed")


def target_away(box: Sandbox, watcher: Watcher) -> None:
    """A target that is away is named, and no more once it is back."""
    box.targets[1].kill()
    watcher.until(lambda: "no answer" in watcher.blockers, "the page to name the target that is away")
    watcher.step("target-away")
    box.targets[1].start()
    watcher.until(lambda: "no answer" not in watcher.blockers, "the page to see that the target is back")


def the_end(demo: Demo, watcher: Watcher, directory: Path) -> None:
    web = Child("migrate web", directory / "web-alone.log", Path.cwd())
    web.start(demo.migration.command("web"), demo.migration.environment)
    try:
        until(lambda: "listening" in web.log.read_text("utf-8"), "the page's server to listen")
        watcher.open()
        watcher.until(lambda: watcher.seen[-1] == "finished", "the page to show the end")
        watcher.step("finished")
    finally:
        web.stop()


def _logged(directory: Path) -> str:
    return "".join(file.read_text("utf-8", "replace") for file in (directory / "logs").glob("web*"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.web.demo_watched")
    parser.add_argument("--flavour", choices=[flavour.value for flavour in Flavour], default="mariadb")
    parser.add_argument("--orders", type=int, default=20_000)
    options = parser.parse_args()
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    run_dir().mkdir(parents=True, exist_ok=True)
    with Sandbox(options.flavour, targets=2, kafka=True) as box, opened() as browser:
        wrong = watched(box, box.root / "migrate", browser, options.orders)
    for one in wrong:
        say(f"WRONG: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
