"""The page in a real browser: it can be used by those who see little, by keyboard, and on a phone. Costs a minute."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from migrate.state import migration as migrations
from migrate.state import status_history
from migrate.status.blocker import Kind
from sandbox.paths import PROJECT
from sandbox.ports import HOST
from tests.waiting import until
from tests.web.browser import ENTER, PAPER, PHONE, TAB, WIDE, Browser, missing, opened
from tests.web.support import NAME, Ground, serving
from tests.web.test_page import BYTES

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(900)]
ADA = "canary-of-ada-4711"
PICTURES = PROJECT / "artifacts" / "pages"
SEARCH = f"/m/{NAME}/explain"
PAGES = {
    "list": ("everything", "/"),
    "migration": ("everything", f"/m/{NAME}"),
    "other": ("everything", "/m/archive"),
    "other-finished": ("everything", "/m/old"),
    "nobody": ("everything", "/m/nobody"),
    "search": ("everything", SEARCH),
    "act": ("everything", f"/m/{NAME}/act"),
    "not-found": ("everything", f"{SEARCH}?table=shop.orders&key=7"),
    "finished": ("finished", f"/m/{NAME}"),
    "unread": ("unread", f"/m/{NAME}"),
    "unread-list": ("unread", "/"),
}
"""By the name of its picture: what the server shows (`tests/web/shown.py`), and the path."""
SIZES = {"wide": (WIDE, False), "wide-dark": (WIDE, True), "phone": (PHONE, False)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as made:
        yield made


@pytest.fixture(scope="module")
def at(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of each kind of server, with ada's name and token."""
    past(ground)
    with ExitStack() as running:
        found = {}
        for kind in ("everything", "finished", "unread"):
            program = [sys.executable, "-m", "tests.web.shown", kind]
            directory = tmp_path_factory.mktemp(kind)
            web = running.enter_context(
                serving(ground, directory, program=program, operators={"ada": ADA}, actions=True)
            )
            found[kind] = f"http://ada:{ADA}@{HOST}:{web.port}"
        yield found


def past(ground: Ground) -> None:
    """A day of this migration and of another, and a migration that is over."""
    now = datetime.now(UTC).replace(tzinfo=None)
    rows = [
        {
            **{"migration": name, "minute": int(now.replace(tzinfo=UTC).timestamp() // 60) - ago},
            **{"at": now - timedelta(minutes=ago), "stage": "copying", "lag_seconds": 3 + 2 * math.sin(ago / 90)},
            **{"changes": 50 * (1440 - ago), "waiting": 3, "blockers": 1, "verdict": "person"},
            "next_command": "migrate parked list",
        }
        for name in (NAME, "archive")
        for ago in range(1440)
        if not 400 < ago < 500
    ]
    with ground.state.begin() as connection:
        for name in ("archive", "old"):
            migrations.create(connection, migrations.Migration(name, ()), "")
        connection.execute(sa.insert(status_history.table), rows)
        over = sa.update(migrations.table).where(migrations.table.c.name == "old")
        connection.execute(over.values(finished=now))


@pytest.mark.parametrize("page", PAGES)
def test_axe_core_finds_nothing_and_no_page_is_wider_than_its_window(
    page: str, at: dict[str, str], browser: Browser
) -> None:
    """Wide, dark and on a phone; nothing is asked for elsewhere, and a browser has nothing to complain about."""
    kind, path = PAGES[page]
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser.shown(WIDE)
    browser.loaded()
    browser.open(at[kind] + path)
    found = []
    for name, (size, dark) in SIZES.items():
        browser.shown(size, dark=dark)
        found += [f"{name}: {one}" for one in browser.found_wrong()]
        browser.keep(PICTURES / f"{page}-{name}.png")
    assert found == []
    loaded = browser.loaded()
    assert [one for one in loaded.addresses if not one.startswith((at[kind] + "/", "data:"))] == []
    assert loaded.size < BYTES
    expected = {"nobody": "404", "unread": "503"}.get(page)
    assert [one for one in loaded.complaints if expected is None or f"status of {expected}" not in one] == []


_CUT = """
const seen = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
const all = [...document.querySelectorAll("main *")].filter(seen);
const told = (one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 40)}`;
return [
  all.filter((one) => one.matches("button, .skip, #link")).map(told),
  all.filter((one) => one.matches(".scroll") && one.scrollWidth > one.clientWidth + 1).map(told),
  all.filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("svg")).map(told),
];
"""


@pytest.mark.parametrize("page", ["migration", "list", "finished"])
def test_on_paper_nothing_is_cut_off_and_nothing_is_there_to_press(
    page: str, at: dict[str, str], browser: Browser
) -> None:
    kind, path = PAGES[page]
    browser.shown(PAPER, printed=True)
    browser.open(at[kind] + path)
    assert browser.ask(_CUT) == [[], [], []]
    browser.keep(PICTURES / f"{page}-paper.png")
    browser.shown(PAPER, dark=True, printed=True)
    background = browser.ask("return getComputedStyle(document.body).backgroundColor")
    assert background in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"), "ink for a dark page"
    browser.shown(WIDE)
    assert browser.ask(_CUT)[0] if page == "migration" else True, "it looks for what it says"


def test_a_fault_is_found(at: dict[str, str], browser: Browser) -> None:
    """Negative control of the one above."""
    browser.open(at["everything"] + SEARCH)
    browser.shown(PHONE)
    broken = "document.querySelector('label').remove(); document.querySelector('h1').style.width = '200vw';"
    browser.ask(f"{broken} document.querySelector('h1').style.color = 'silver'; new Image().src = '{at['unread']}/'")
    found = "\n".join(browser.found_wrong())
    assert [one for one in ("label: #table", "color-contrast: h1", "wider than the window") if one not in found] == []
    until(lambda: any("Content Security Policy" in one for one in browser.loaded().complaints), "a refusal to be told")


def test_each_kind_of_blocker_is_shown_once_on_a_page_of_less_than_300_kb(at: dict[str, str], browser: Browser) -> None:
    """With what comes first over its stream, which is not all of the page once more."""
    browser.loaded()
    browser.open(at["everything"] + f"/m/{NAME}")
    browser.wait("return document.getElementById('link').textContent === 'Live'", "the page to be live")
    kinds = browser.ask("return [...document.querySelectorAll('#blockers tbody th')].map((one) => one.textContent)")
    assert kinds == [kind.value for kind in Kind]
    whole = len(browser.ask("return document.documentElement.outerHTML"))
    loaded = browser.loaded()
    assert whole < loaded.size < min(BYTES, 1.5 * whole), (whole, loaded.size)


def test_a_page_takes_in_what_changed_and_what_is_open_or_in_focus_stays_so(
    at: dict[str, str], browser: Browser
) -> None:
    browser.shown(PHONE)
    browser.open(at["everything"] + f"/m/{NAME}")
    applied = "return document.querySelector('#summary dl div:nth-child(4) dd').textContent"
    first = browser.ask(applied)
    browser.ask(
        "const partitions = document.querySelectorAll('#streams .scroll')[1]; partitions.scrollLeft = 40;"
        " document.querySelector('#tables summary').click(); partitions.focus(); document.body.dataset.same = 'yes'"
    )
    browser.wait(f"const shown = (() => {{ {applied} }})(); return shown !== '{first}'", "another look")
    assert browser.ask("return document.body.dataset.same") == "yes", "it was not loaded again"
    assert browser.ask("return document.querySelectorAll('#streams .scroll')[1].scrollLeft") == 40
    assert browser.ask("return document.querySelector('#tables details').open")
    focused = "return [...document.querySelectorAll('#streams .scroll')].indexOf(document.activeElement)"
    assert browser.ask(focused) == 1


def test_everything_is_reached_by_keyboard_and_the_place_is_seen(at: dict[str, str], browser: Browser) -> None:
    browser.shown(WIDE)
    browser.open(at["everything"] + f"/m/{NAME}")
    first = browser.press(TAB)
    assert (first.tag, first.told, first.is_visible) == ("a", "Skip to the content", True)
    assert browser.press(ENTER).tag == "main"
    steps = [browser.press(TAB)]
    assert (steps[0].tag, steps[0].told) == ("button", "Copy migrate verify")
    browser.press(ENTER)
    assert browser.clipboard() == "migrate verify"
    reachable = browser.ask("return document.querySelectorAll('main :is(a[href], button, summary, .scroll)').length")
    steps += [browser.press(TAB) for _ in range(reachable - 1)]
    assert {one.tag for one in steps} == {"a", "button", "div", "summary"}
    assert [one for one in steps if not one.is_visible] == []
    assert browser.press(TAB).tag == "body", "nothing is left, and nothing keeps the keyboard"
