"""Rewinds are kept, and a replay is over where the publisher was before it."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.state import rewind
from migrate.state.position import Position
from migrate.state.rewind import Rewind
from tests.helpers import unique

BEFORE = Position("main", "db:3306", 1, "", 9, 4, "binlog.000012", 4000, "0-1-9")
AFTER = replace(BEFORE, incarnation=5, file="binlog.000009", pos=200, gtid_set="0-1-2")


def test_a_replay_is_over_where_the_publisher_was_before(state: sa.Engine) -> None:
    name = unique("m")
    with state.begin() as connection:
        assert rewind.replaying(connection, name, BEFORE) == ""
        rewind.note(connection, name, BEFORE, AFTER, "0-1-2")
        assert rewind.every(connection, name, "main") == [
            Rewind(5, "0-1-2", "binlog.000012", 4000, "binlog.000009", 200)
        ]
        assert rewind.replaying(connection, name, AFTER) == "binlog.000012:4000"
        assert rewind.replaying(connection, name, replace(AFTER, file="binlog.000012", pos=3999)) != ""
        assert rewind.replaying(connection, name, replace(AFTER, file="binlog.000012")) != ""
        assert rewind.replaying(connection, name, replace(AFTER, file="binlog.000012", pos=4000)) == ""
        assert rewind.replaying(connection, name, replace(AFTER, file="binlog.000013", pos=4)) == ""
        assert rewind.replaying(connection, name, replace(AFTER, incarnation=6)) == ""
        assert rewind.replaying(connection, unique("other"), AFTER) == ""
