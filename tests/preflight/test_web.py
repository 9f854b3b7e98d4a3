"""A token that acknowledges for every application instance is noted."""

from __future__ import annotations

from migrate.preflight.result import Verdict
from migrate.preflight.server import web
from tests.helpers import make_settings
from tests.preflight.support import Case, one

TOKEN = "canary-shared-4711"


def test_a_shared_token_that_acknowledges_for_all_is_noted(case: Case) -> None:
    case.raw["web"] = {"token": TOKEN}
    note = one([result for result in case.report(services=True).results if result.check == "web"])
    assert note.verdict is Verdict.NOTE
    assert "as any instance" in note.message
    assert "web.tokens" in note.mend
    assert TOKEN not in repr(note)


def test_tokens_of_instances_are_not() -> None:
    tokens = {"web-1": "canary-of-web-1-4711"}
    for harmless in ({}, {"tokens": tokens}, {"token": TOKEN, "tokens": tokens}):
        assert web.check(make_settings(web=harmless)) == []
