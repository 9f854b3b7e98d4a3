"""What operators do from the page: the very commands, noted with who ran them, and begun by nobody else. Costs 12 s."""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa

from migrate.state import page_action, schema_history, throttle
from migrate.state.page_action import PageAction
from migrate.state.schema_history import Version
from sandbox.ports import HOST
from tests.failover.support import wait
from tests.helpers import plain_table
from tests.web.support import NAME, Ground, Web, serving

ADA, BOB, EVE = "canary-of-ada-4711", "canary-of-bob-4711", "canary-of-eve-4711"
PEOPLE = {"ada": ADA, "bob": BOB, "eve": EVE}
ACT = f"/m/{NAME}/act"


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)


def ask(
    web: Web, who: str, form: dict[str, str] | bytes | None = None, path: str = ACT, **headers: str
) -> tuple[int, str]:
    """The status and the text of what a browser gets; a form is posted."""
    basic = base64.b64encode(f"{who}:{PEOPLE[who]}".encode()).decode()
    data = form if form is None or isinstance(form, bytes) else urlencode(form).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(
        f"http://{HOST}:{web.port}{path}", data, {"Authorization": f"Basic {basic}", **named}
    )
    try:
        with _OPENER.open(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, unescape(error.read().decode())


def mark(web: Web, who: str) -> str:
    status, page = ask(web, who)
    assert status == 200, page
    (found,) = set(re.findall(r'name="mark" value="([0-9a-f]{64})"', page))
    return str(found)


@contextmanager
def acting(ground: Ground, directory: Path, *, actions: bool = True) -> Iterator[Web]:
    directory.mkdir(exist_ok=True)
    operators = {"ada": ADA, "bob": BOB}
    with serving(ground, directory, operators=operators, readers={"eve": EVE}, actions=actions) as web:
        yield web


@pytest.fixture(autouse=True)
def nothing_done(ground: Ground) -> None:
    """Of a migration that init has made."""
    with ground.state.begin() as connection:
        connection.execute(sa.delete(page_action.table))
        table = plain_table()
        name = (table.database, table.name)
        schema_history.put(connection, NAME, table.source, name, Version(table), "1/u")


def done(ground: Ground) -> list[PageAction]:
    with ground.state.connect() as connection:
        return page_action.newest(connection, NAME, 50)


def ended(ground: Ground, number: int) -> PageAction:
    """The action of a number, once it ended."""

    def there() -> PageAction | None:
        return next((one for one in done(ground) if one.number == number and one.ended is not None), None)

    wait(there, f"the end of action {number}")
    found = there()
    assert found is not None
    return found


def paused(ground: Ground) -> bool:
    with ground.state.connect() as connection:
        return throttle.get(connection, NAME).paused is True


def test_an_action_is_the_command_and_is_noted_with_who_ran_it(ground: Ground, tmp_path: Path) -> None:
    with acting(ground, tmp_path) as web:
        form = {"mark": mark(web, "ada"), "action": "pause"}
        assert ask(web, "ada", form)[0] == 303
        first = ended(ground, 1)
        assert (first.operator, first.command, first.exit_code) == ("ada", "migrate throttle --pause", 0)
        assert "PAUSED" in first.output
        assert paused(ground)
        assert ask(web, "bob", {"mark": mark(web, "bob"), "action": "resume"})[0] == 303
        assert ended(ground, 2).operator == "bob"
        assert not paused(ground)
        refresh = {"action": "refresh", "table": "--help", "key": "-1", "source": ""}
        assert ask(web, "ada", {"mark": mark(web, "ada"), **refresh})[0] == 303
        third = ended(ground, 3)
        assert third.command == "migrate refresh -- --help -1"
        assert third.exit_code not in (0, None)
        assert "Usage" not in third.output
        page = ask(web, "bob")[1]
        assert all(one in page for one in ("migrate throttle --pause", "ada", "bob", "PAUSED"))
        assert [*(tmp_path / "run" / "page").iterdir()] == []
    assert not [secret for secret in PEOPLE.values() if secret in web.log]


def test_nobody_acts_without_the_right_to(ground: Ground, tmp_path: Path) -> None:
    pause = {"action": "pause"}
    with acting(ground, tmp_path) as web:
        mine = mark(web, "ada")
        for who, path in (("eve", ACT), ("eve", f"{ACT}/live")):
            status, told = ask(web, who, path=path)
            assert status == 403
            assert "this token only reads: an operator's acts (web.operators)" in told
        assert ask(web, "eve", {"mark": mine, **pause})[0] == 403
        assert ask(web, "ada", {"mark": mine, **pause}, path="/m/other/act")[0] == 404
    with acting(ground, tmp_path / "off", actions=False) as web:
        assert [ask(web, who)[0] for who in ("ada", "eve")] == [403, 403]
        assert ask(web, "ada", {"mark": mine, **pause})[0] == 403
    assert done(ground) == []


def test_what_another_site_sends_in_the_name_of_an_operator_is_refused(ground: Ground, tmp_path: Path) -> None:
    """Lost: the throttle, or where applications write, by a link that an operator followed."""
    with acting(ground, tmp_path) as web:
        mine = {"mark": mark(web, "ada"), "action": "pause"}
        own = f"{HOST}:{web.port}"
        for form, headers, why in (
            ({"action": "pause"}, {}, "of an earlier page, or of another site"),
            ({**mine, "mark": mark(web, "bob")}, {}, "of an earlier page, or of another site"),
            (mine, {"Origin": "https://elsewhere.example"}, "begins at this page"),
            (mine, {"Origin": "null"}, "begins at this page"),
            (mine, {"Sec_Fetch_Site": "cross-site"}, "begins at this page"),
            (mine, {"Sec_Fetch_Site": "same-site"}, "begins at this page"),
            (mine, {"Sec_Fetch_Site": "none"}, "begins at this page"),
            (mine, {"Content_Type": "text/plain"}, "by a form of this page"),
            ({**mine, "action": "finish"}, {}, "has no such action"),
            ({**mine, "action": "cutover"}, {}, "type the migration's name to confirm it"),
            ({**mine, "action": "rollback", "confirm": "sho"}, {}, "type the migration's name to confirm it"),
            ({**mine, "action": "refresh", "table": "shop.orders"}, {}, "nothing is given"),
            ({**mine, "action": "refresh", "table": "a\nb", "key": "1"}, {}, "has a control character"),
            ({**mine, "action": "refresh", "table": "t" * 1025, "key": "1"}, {}, "longer than 1024 characters"),
            (urlencode([*mine.items(), ("action", "resume")]).encode(), {}, "cannot be read"),
            (b"\xff", {}, "cannot be read"),
        ):
            status, told = ask(web, "ada", form, **headers)
            assert (status, why in told) == (409, True), (form, headers, told)
        assert ask(web, "ada", {**mine, "key": "k" * 5000})[0] == 413
        assert done(ground) == []
        assert ask(web, "ada", mine, Origin=f"http://{own}", Sec_Fetch_Site="same-origin")[0] == 303
        ended(ground, 1)


def test_one_runs_at_a_time_and_goes_on_where_the_server_ends(ground: Ground, tmp_path: Path) -> None:
    """Lost: a cutover in the middle of its freeze, as the pipe that it wrote to was closed."""
    with ground.state.begin() as connection:
        connection.execute(sa.delete(throttle.table))
    with closing(ground.server.connect(database=ground.settings.database)) as held, held.cursor() as cursor:
        with acting(ground, tmp_path) as web:
            mine = mark(web, "ada")
            cursor.execute("LOCK TABLES throttle WRITE")
            assert ask(web, "ada", {"mark": mine, "action": "pause"})[0] == 303
            status, told = ask(web, "bob", {"mark": mark(web, "bob"), "action": "resume"})
            assert (status, "another action runs" in told) == (409, True)
            assert "It goes on if this page is closed" in told
        cursor.execute("UNLOCK TABLES")
        wait(lambda: paused(ground), "the command to do what it was asked")
    (left,) = done(ground)
    assert (left.operator, left.ended, left.exit_code) == ("ada", None, None)
    with acting(ground, tmp_path / "later") as web:
        assert "not known" in ask(web, "ada")[1]


def test_the_newest_actions_are_kept(ground: Ground) -> None:
    with ground.state.begin() as connection:
        for _ in range(page_action.KEPT + 3):
            number = page_action.begin(connection, NAME, "ada", "migrate throttle --pause")
        assert number == page_action.KEPT + 3
        kept = page_action.newest(connection, NAME, 2 * page_action.KEPT)
    assert [one.number for one in kept] == list(range(number, 3, -1))
