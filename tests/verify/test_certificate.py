"""The certificate as JSON and as a page."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from migrate.mysql.connection import connect
from migrate.verify.certificate import SourcePoint, binlog_end, make, page
from migrate.verify.kinds import Kind
from migrate.verify.looks import Difference
from migrate.verify.table_check import TableVerified
from sandbox.stack import Sandbox
from tests.helpers import server_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
POINTS = [SourcePoint("main", "binlog.000001:4", "binlog.000002:99 0-1-7")]
CLEAN = TableVerified("a.t", "main", ("id",), ("id", "v"), 16, 3, 60, 60, 0, 0)
NAMED = Difference("a.t", ("7", "x"), Kind.MISSING, "belongs in t0/d.t_1")


def test_a_clean_certificate_says_what_was_compared_where_and_how() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [CLEAN])
    assert (certificate["clean"], certificate["rows"], certificate["differences"]) == (True, 60, 0)
    assert certificate["sources"] == [
        {"source": "main", "before": "binlog.000001:4", "after": "binlog.000002:99 0-1-7"}
    ]
    assert json.loads(json.dumps(certificate))["started"] == "2026-01-02T03:04:05.678+00:00"
    text = page(certificate)
    assert "CLEAN: source and target are equal" in text
    assert "a.t: 60 rows in 3 chunks over 16 places, 0 differences" in text
    assert "SHA-256" in text


def test_differences_are_named_and_the_rest_is_counted() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [replace(CLEAN, differences=3, named=(NAMED,)), CLEAN])
    assert (certificate["clean"], certificate["differences"]) == (False, 3)
    assert certificate["tables"][0]["named"] == [
        {"key": ["7", "x"], "kind": "missing", "detail": "belongs in t0/d.t_1"}
    ]
    text = page(certificate)
    assert "NOT CLEAN: 3 differences" in text
    assert "missing (7, x): belongs in t0/d.t_1" in text
    assert "and 2 more" in text


def test_keys_in_motion_keep_a_certificate_from_being_clean() -> None:
    certificate = make("m", 5, AT, AT, POINTS, [replace(CLEAN, in_motion=2)])
    assert (certificate["clean"], certificate["differences"]) == (False, 0)
    assert "2 keys kept changing" in page(certificate)


def test_the_binlogs_end_moves_with_a_write(box: Sandbox) -> None:
    connection = connect(server_of(box.source), "source")
    before = binlog_end(connection)
    connection.execute("CREATE DATABASE verify_point")
    connection.execute("DROP DATABASE verify_point")
    after = binlog_end(connection)
    connection.close()
    assert before.startswith("binlog.0")
    assert after != before
