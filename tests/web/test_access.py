"""Whose token may acknowledge, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.support import SLOW
from tests.web.support import GOOD, TOKEN, Ground, accepted, serving, start

ONE, OTHER = "canary-of-web-1-4711", "canary-of-web-2-0815"
TOKENS = {"web-1": ONE, "web 2/ä": OTHER}


@pytest.mark.usefixtures("applications")
def test_a_token_of_an_instance_acknowledges_and_leaves_as_that_instance_alone(ground: Ground, tmp_path: Path) -> None:
    """Lost: what an instance wrote while a cutover went on, as another holder of the token had acknowledged for it."""
    with serving(ground, tmp_path, token=TOKEN, tokens=TOKENS) as web:
        assert [web.ask(token=token) for token in (TOKEN, ONE, OTHER)] == [(200, GOOD)] * 3
        assert [web.ask(token=f"{ONE}{more}")[0] for more in ("x", "0")] == [401, 401]
        assert web.ask(token=ONE[:-1])[0] == 401
        acknowledge = {"instance": "web-1", "version": 1}
        assert web.ask("POST", body=acknowledge, token=OTHER) == (
            403,
            {"error": "this token is for the instance 'web 2/ä' only"},
        )
        only_reads = {"error": "this token only reads the switch; use the instance's own token, from web.tokens"}
        assert web.ask("POST", body=acknowledge) == (403, only_reads)
        assert ground.acknowledged() == []
        assert accepted(web.ask("POST", body=acknowledge, token=ONE))
        assert accepted(web.ask("POST", body={"instance": "web 2/ä", "version": 1}, token=OTHER))
        both = [("web 2/ä", 1), ("web-1", 1)]
        assert sorted(ground.acknowledged()) == both

        assert web.ask("DELETE", "/switch/web-1", token=OTHER)[0] == 403
        assert web.ask("DELETE", "/switch/web-1") == (403, only_reads)
        assert web.ask("DELETE", "/switch/nobody", token=ONE)[0] == 403
        assert sorted(ground.acknowledged()) == both
        assert web.ask("DELETE", "/switch/web%202%2F%C3%A4", token=OTHER) == (200, {})
        assert ground.acknowledged() == [("web-1", 1)]
        # trailing blanks are equal to none in the state's key
        assert web.ask("POST", body={"instance": "web-1 ", "version": 1}, token=ONE)[0] == 403
        assert web.ask("DELETE", "/switch/web-1%20", token=OTHER)[0] == 403
        assert ground.acknowledged() == [("web-1", 1)]
    assert not [secret for secret in (TOKEN, ONE, OTHER) if secret in web.log]
    assert "any instance" not in web.log


@pytest.mark.usefixtures("applications")
def test_tokens_of_instances_need_no_shared_one(ground: Ground, tmp_path: Path) -> None:
    with serving(ground, tmp_path, tokens=TOKENS) as web:
        assert web.ask(token=TOKEN)[0] == 401
        assert web.ask(token="")[0] == 401
        assert accepted(web.ask("POST", body={"instance": "web-1", "version": 1}, token=ONE))


@pytest.mark.usefixtures("applications")
def test_the_shared_token_alone_acknowledges_as_anybody_and_that_is_said(ground: Ground, tmp_path: Path) -> None:
    with serving(ground, tmp_path, token=TOKEN) as web:
        for instance in ("web-1", "web-2"):
            assert accepted(web.ask("POST", body={"instance": instance, "version": 1}))
        assert web.ask("DELETE", "/switch/web-2") == (200, {})
        assert ground.acknowledged() == [("web-1", 1)]
        assert web.log.count("any instance") == 1


@pytest.mark.usefixtures("applications")
def test_a_process_that_ends_leaves_the_row_of_the_next_one_of_its_name(ground: Ground, tmp_path: Path) -> None:
    """Lost: what the next one wrote while a cutover went on, as the row that it had renewed was deleted."""
    with serving(ground, tmp_path, token=TOKEN) as web:
        acknowledge = {"instance": "web-1", "version": 1}
        _, first = web.ask("POST", body=acknowledge)
        _, second = web.ask("POST", body=acknowledge)
        assert first["seen"] < second["seen"]
        assert web.ask("DELETE", f"/switch/web-1?seen={first['seen']}")[0] == 409
        assert ground.acknowledged() == [("web-1", 1)]
        assert web.ask("DELETE", f"/switch/web-1?seen={second['seen']}") == (200, {})
        assert web.ask("DELETE", f"/switch/web-1?seen={second['seen']}")[0] == 404
        for wrong in ("", "yesterday", "2026-01-31T12:00:00Z", "%ff"):
            assert web.ask("DELETE", f"/switch/web-1?seen={wrong}")[0] == 400, wrong


def test_without_a_token_it_does_not_start(ground: Ground, tmp_path: Path) -> None:
    web = start(ground, tmp_path)
    try:
        assert web.wait(SLOW)
    finally:
        web.kill()
    log = web.log.read_text("utf-8")
    assert (web.returncode, "neither web.tokens nor web.token is set" in log) == (2, True), log
