"""The page over HTTP: who reads it, what a browser is told, and why nothing can be read. Costs 6 s."""

from __future__ import annotations

import base64
import html
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sandbox.ports import HOST
from tests.failover.support import wait
from tests.waiting import SLOW
from tests.web.support import GOOD, NAME, TOKEN, Ground, Web, request, serving

ONCALL, DBA = "canary-of-oncall-4711", "canary-of-dba-0815-ä"
READERS = {"oncall": ONCALL, "dba ü": DBA}


@pytest.fixture(scope="module")
def web(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serving(ground, tmp_path_factory.mktemp("page"), token=TOKEN, readers=READERS) as running:
        yield running
        assert not [secret for secret in (TOKEN, ONCALL, DBA) if secret in running.log]


def basic(name: str, token: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{token}'.encode()).decode()}"


def get(web: Web, path: str, authorization: str) -> tuple[int, dict[str, str], str]:
    """The status, headers by their name in small letters, and the body."""
    with closing(HTTPConnection(HOST, web.port, timeout=SLOW)) as connection:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def test_only_a_reader_reads_the_page_and_only_the_page(web: Web) -> None:
    for good in (basic("oncall", ONCALL), f"Bearer {ONCALL}", basic("dba ü", DBA)):
        assert get(web, "/static/page.js", good)[0] == 200
    for bad in ("", basic("oncall", DBA), basic("dba ü", ONCALL), basic("oncall", f"{ONCALL}x"), f"Basic {ONCALL}"):
        status, headers, _ = get(web, "/", bad)
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="migrate", charset="UTF-8"'), bad
    assert "www-authenticate" not in get(web, "/switch", "")[1], "programs are asked nothing"
    assert get(web, "/", basic("oncall", TOKEN))[0] == 401
    refused = {"error": "this token does not read the page; use one of web.readers"}
    for path in ("/", f"/m/{NAME}", f"/m/{NAME}/live", f"/m/{NAME}/explain", "/live", "/static/page.css"):
        status, _, body = get(web, path, f"Bearer {TOKEN}")
        assert (status, json.loads(body)) == (403, refused), path
    only = {"error": "this token only reads the page"}
    acknowledge = {"instance": "web-1", "version": 1}
    for sent in (request(token=ONCALL), request("POST", body=acknowledge, token=ONCALL)):
        assert web.send(sent) == (403, only)
    assert web.send(request("DELETE", "/switch/web-1", token=ONCALL)) == (403, only)
    assert web.send(request(path="/metrics", token=ONCALL))[0] == 403
    assert web.ask() == (200, GOOD)


def test_nothing_of_another_site_runs_or_shows_the_page(web: Web) -> None:
    for path in ("/", f"/m/{NAME}", "/static/page.css", "/static/page.js"):
        _, headers, _ = get(web, path, f"Bearer {ONCALL}")
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
        assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    for path in ("/static/../page.css", "/static/x", "/m/nobody", f"/m/{NAME}x/live", "/m/", "/nothing"):
        assert get(web, path, f"Bearer {ONCALL}")[0] == 404, path
    for method in ("POST", "PUT", "DELETE"):
        assert web.send(request(method, f"/m/{NAME}", token=ONCALL))[0] == 405


def test_where_nothing_can_be_read_the_page_says_why(web: Web) -> None:
    """The migration has no tables: it was never set up with this config."""
    status, headers, body = get(web, f"/m/{NAME}", f"Bearer {ONCALL}")
    assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "The status cannot be read" in body
    status, _, body = get(web, "/", f"Bearer {ONCALL}")
    assert status == 200
    assert re.search(rf"{NAME}: the status cannot be read: \w", body)
    first = next(events(web, f"/m/{NAME}/live"))
    assert first[0] == "problem"
    assert first[1]


def events(web: Web, path: str, more: str = "") -> Iterator[tuple[str, object]]:
    """Each event's name and data, until the server ends the stream. more: header lines."""
    with closing(web.connect()) as connection, connection.makefile("rb") as lines:
        connection.sendall(request(path=path, token=ONCALL, more=more))
        name = ""
        for line in lines:
            field, _, value = line.decode().strip().partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name:
                yield name, json.loads(value)


def test_a_page_is_sent_what_it_does_not_have_yet(web: Web) -> None:
    """Lost: a page that connects again after an interruption would keep what has changed back meanwhile."""
    status, _, body = get(web, "/", f"Bearer {ONCALL}")
    assert status == 200
    has = html.unescape(re.search(r'data-live="([^"]+)"', body)[1])  # type: ignore[index]
    assert re.fullmatch(r"/live\?has=list%3A[0-9a-f]{12}", has)
    assert next(events(web, has)) == ("parts", {})
    for path, more in (("/live", ""), (f"{has}0", ""), (has, "Last-Event-ID: 1\r\n")):
        name, parts = next(events(web, path, more))
        assert (name, isinstance(parts, dict) and list(parts)) == ("parts", ["list"]), (path, more)


def test_a_name_that_no_migration_has_is_answered_in_a_page(web: Web) -> None:
    status, headers, body = get(web, "/m/%3Cb%3Enobody", f"Bearer {ONCALL}")
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no migration &lt;b&gt;nobody" in body


def test_another_site_begins_no_search(web: Web) -> None:
    """Lost: time of every server, by an image on any page that a reader looks at."""
    path = f"/m/{NAME}/explain?table=x.y&key=1"
    for site in ("cross-site", "same-site"):
        sent = request(path=path, token=ONCALL, more=f"Sec-Fetch-Site: {site}\r\n")
        assert web.send(sent)[0] == 403, site
    for site in ("none", "same-origin"):
        with closing(web.connect()) as connection:
            connection.sendall(request(path=path, token=ONCALL, more=f"Sec-Fetch-Site: {site}\r\n"))
            assert connection.recv(12) == b"HTTP/1.1 200", site


def test_a_row_that_cannot_be_looked_for_is_answered_in_the_page(web: Web) -> None:
    path = f"/m/{NAME}/explain?table=%3Cb%3Ex.y&key=%22%3E"
    status, _, body = get(web, path, f"Bearer {ONCALL}")
    assert status == 200
    assert 'value="&lt;b&gt;x.y"' in body
    assert 'role="alert"' in body
    assert "<b>x" not in body


def test_it_ends_at_once_although_pages_are_open(ground: Ground, tmp_path: Path) -> None:
    with serving(ground, tmp_path, readers=READERS) as web:
        opened: list[socket.socket] = []
        try:
            for path in ("/live", f"/m/{NAME}/live"):
                opened.append(web.connect())
                opened[-1].sendall(request(path=path, token=ONCALL))
                assert opened[-1].recv(20).startswith(b"HTTP/1.1 200 OK")
            web.child.stop()
            assert web.child.returncode == 0
            wait(lambda: all(not one.recv(65536) for one in opened), "the streams to end")
        finally:
            for one in opened:
                one.close()


def test_a_page_above_the_limit_is_not_kept_live(ground: Ground, tmp_path: Path) -> None:
    with serving(ground, tmp_path, readers=READERS) as web:
        opened = [web.connect() for _ in range(65)]
        try:
            for one in opened:
                one.sendall(request(path="/live", token=ONCALL))
            firsts = [one.recv(12) for one in opened]
            assert sorted(firsts) == [b"HTTP/1.1 200"] * 64 + [b"HTTP/1.1 503"]
        finally:
            for one in opened:
                one.close()
        wait(lambda: get_first(web) == b"HTTP/1.1 200", "a stream to end")


def get_first(web: Web) -> bytes:
    with closing(web.connect()) as connection:
        connection.sendall(request(path="/live", token=ONCALL))
        return connection.recv(12)
