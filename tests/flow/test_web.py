"""The switch over HTTP: what an application reads and says there, and what is refused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique

TOKEN = "canary-token-4711-0815"


def request(url: str, method: str = "GET", body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
    """The status and the JSON answer."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"}, method=method)  # noqa: S310 - http
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_applications_read_the_switch_and_say_what_they_go_by(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    port = free_port()
    more = f"web: {{listen: '{HOST}:{port}', token: '{TOKEN}'}}\n"
    with closing(Flow(box, kafka, tmp_path, unique("web"), box.source, more=more)) as flow:
        flow.migration.do("init")
        # off from the start, before any process or command of the migration but `init`
        default = "SELECT version, side, writes FROM application_switch WHERE migration = "
        assert flow.state_of(f"{default}'{flow.name}'") == ((1, "source", "open"),)
        web = flow.child("web", "web")
        wait(lambda: "listening" in web.log.read_text("utf-8"), "the web server")
        url = f"http://{HOST}:{port}/switch"
        assert request(url) == (200, {"version": 1, "side": "source", "writes": "open"})
        assert request(url, "POST", {"instance": "web-1", "version": 1})[0] == 200
        assert [(one["instance"], one["version"]) for one in flow.migration.ask("switch")["applications"]] == [
            ("web-1", 1)
        ]
        assert request(f"{url}/web-1", "DELETE") == (200, {})
        assert flow.migration.ask("switch")["applications"] == []

        assert request(url, token="wrong")[0] == 401
        assert request(f"{url}/web-1", "DELETE")[0] == 404
        assert request(f"http://{HOST}:{port}/status")[0] == 404
        for wrong in (
            b"",
            b"{",
            b"[]",
            {"instance": "a"},
            {"instance": 7, "version": 1},
            {"instance": "a", "version": "1"},
            {"instance": "a", "version": True},
            {"instance": "", "version": 1},
            b'{"instance": "\\ud800", "version": 1}',
            b"[" * 4000,
            *({"instance": "a", "version": never} for never in (-1, 0, 2, 2**70)),
        ):
            code, body = request(url, "POST", wrong)
            assert (code, list(body)) == (400, ["error"]), wrong
        assert flow.migration.ask("switch")["applications"] == []
        assert request(url, "POST", {"instance": "a" * 129, "version": 1})[0] == 400
        assert request(url, "POST", b"x" * 5000)[0] == 400
        said = web.log.read_text("utf-8")
        assert (TOKEN in said, "Traceback" in said) == (False, False)
        web.stop()
        assert web.returncode == 0
