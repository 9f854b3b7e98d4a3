"""Settings with which a crash takes what was acknowledged are named, with what it costs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from migrate.mysql.connection import Connection, connect
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server import durability
from sandbox.stack import Sandbox
from tests.helpers import globally, make_settings, server_of

CHECKS = {
    "target": (durability.check_target, "applies it again from Kafka", "the reverse stream would lack"),
    "state": (durability.check_state, "the last second's work again", ""),
    "source": (durability.check_source, "takes them from the reverse stream", "only a verification finds them"),
}


@pytest.mark.parametrize("role", CHECKS)
def test_what_a_crash_of_a_server_costs_is_told_by_its_role(box: Sandbox, role: str) -> None:
    """Lost without a word: the last second of a target or the state, by its settings, in a crash of its machine."""
    check: Callable[[Connection], list[Result]]
    check, redo, log = CHECKS[role]
    with (
        globally(box.source, "innodb_flush_log_at_trx_commit", 2),
        globally(box.source, "sync_binlog", 0),
        closing(connect(server_of(box.source), "server 's'")) as connection,
    ):
        found = check(connection)
    assert {one.verdict for one in found} == {Verdict.NOTE}
    wanted = [text for text in (redo, log) if text]
    assert [text for text, one in zip(wanted, found, strict=True) if text in one.message] == wanted
    assert all(one.mend.startswith("SET GLOBAL ") for one in found)


@pytest.mark.parametrize("role", CHECKS)
def test_a_server_that_keeps_what_it_committed_passes(box: Sandbox, role: str) -> None:
    with (
        globally(box.source, "innodb_flush_log_at_trx_commit", 1),
        globally(box.source, "sync_binlog", 1),
        closing(connect(server_of(box.source), "server 's'")) as connection,
    ):
        (found,) = CHECKS[role][0](connection)
    assert found.verdict is Verdict.PASS


@pytest.mark.parametrize(("replication", "verdict"), [(1, Verdict.NOTE), (3, Verdict.PASS)])
def test_topics_on_one_broker_are_told(replication: int, verdict: Verdict) -> None:
    """Lost: acknowledged messages, with the one broker that has them."""
    kafka = {"bootstrap": "b:9092", "replication": replication}
    (found,) = durability.check_kafka(make_settings(kafka=kafka).kafka)
    assert found.verdict is verdict
