"""Rewinds are kept, and a replay is over where the publisher was before it."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.state import failover, replay, rewind
from migrate.state.failover import NotedFailover
from migrate.state.position import Position
from migrate.state.rewind import Rewind
from tests.helpers import unique

BEFORE = Position("main", "db:3306", 1, "", 9, 4, "binlog.000012", 4000, "0-1-9")
AFTER = replace(BEFORE, incarnation=5, file="binlog.000009", pos=200, gtid_set="0-1-2")


def test_a_replay_is_over_where_the_publisher_was_before(state: sa.Engine) -> None:
    """Lost: rows that a copy or a verification took for the newest, while older changes came again."""
    name = unique("m")
    with state.begin() as connection:
        assert replay.replaying(connection, name, BEFORE) == ""
        rewind.note(connection, name, BEFORE, AFTER, "0-1-2")
        assert rewind.every(connection, name, "main") == [
            Rewind(5, "0-1-2", "binlog.000012", 4000, "binlog.000009", 200, "0-1-9")
        ]
        assert replay.replaying(connection, name, AFTER) == "binlog.000012:4000"
        assert replay.replaying(connection, name, replace(AFTER, file="binlog.000012", pos=3999)) != ""
        assert replay.replaying(connection, name, replace(AFTER, file="binlog.000012")) != ""
        assert replay.replaying(connection, name, replace(AFTER, file="binlog.000012", pos=4000)) == ""
        assert replay.replaying(connection, name, replace(AFTER, file="binlog.000013", pos=4)) == ""
        assert replay.replaying(connection, unique("other"), AFTER) == ""


def test_a_second_rewind_before_the_first_replay_is_over_ends_where_the_first_one_does(state: sa.Engine) -> None:
    name, midst = unique("m"), replace(AFTER, file="binlog.000010", pos=7)
    again = replace(AFTER, incarnation=6)
    with state.begin() as connection:
        rewind.note(connection, name, BEFORE, AFTER, "0-1-2")
        rewind.note(connection, name, midst, again, "0-1-2")
        assert replay.replaying(connection, name, replace(again, file="binlog.000011", pos=4)) == "binlog.000012:4000"
        assert replay.replaying(connection, name, replace(again, file="binlog.000012", pos=4000)) == ""


def test_after_a_failover_by_time_the_replay_is_over_at_the_end_that_the_new_log_had(state: sa.Engine) -> None:
    name, there = unique("m"), replace(BEFORE, incarnation=5, file="other.000002", pos=300)
    with state.begin() as connection:
        failover.note(connection, name, NotedFailover("main", 5, "a", "b", failover.TIME, "", "other.000003", 900))
        assert replay.replaying(connection, name, there) == "other.000003:900"
        assert replay.replaying(connection, name, replace(there, file="other.000003", pos=900)) == ""
    assert replay.sources(state, name, ["main"]) == {}  # no position is stored


def test_a_failover_by_gtid_is_a_replay_only_where_one_was_under_way(state: sa.Engine) -> None:
    name, other = unique("m"), unique("m")
    step = NotedFailover("main", 6, "a", "b", failover.GTID, "", "other.000003", 900)
    there = replace(AFTER, incarnation=6, file="other.000002", pos=300)
    with state.begin() as connection:
        failover.note(connection, name, step)
        assert replay.replaying(connection, name, there) == ""
        rewind.note(connection, other, BEFORE, AFTER, "0-1-2")
        failover.note(connection, other, step)
        assert replay.replaying(connection, other, there) == "other.000003:900"


def test_all_of_the_server_before_is_published_once_the_new_log_is_read_to_where_it_ended_then(
    state: sa.Engine,
) -> None:
    """Lost: children of rows that went: a marker overtook changes of theirs further on in the new server's log."""
    name, there = unique("m"), replace(AFTER, incarnation=6, file="other.000002", pos=300)
    with state.begin() as connection:
        assert replay.is_past_failover(connection, name, there)
        failover.note(connection, name, NotedFailover("main", 6, "a", "b", failover.GTID, "", "other.000003", 900))
        assert replay.is_past_failover(connection, name, replace(there, incarnation=5))
        assert not replay.is_past_failover(connection, name, there)
        assert not replay.is_past_failover(connection, name, replace(there, incarnation=7))
        assert replay.is_past_failover(connection, name, replace(there, file="other.000003", pos=900))
        failover.note(connection, name, NotedFailover("main", 8, "b", "c", failover.GTID, ""))
        assert replay.is_past_failover(connection, name, replace(there, incarnation=8))


def test_a_failover_by_gtid_is_a_replay_where_the_topic_had_more_than_was_acknowledged(state: sa.Engine) -> None:
    """What a killed publisher had sent comes again: rows go back for a moment, and nothing told a copy to wait."""
    name = unique("m")
    there = replace(AFTER, incarnation=6, file="other.000002", pos=300)
    with state.begin() as connection:
        failover.note(connection, name, NotedFailover("main", 6, "a", "b", failover.AGAIN, "", "other.000003", 900))
        assert replay.replaying(connection, name, there) == "other.000003:900"
        assert replay.replaying(connection, name, replace(there, file="other.000003", pos=900)) == ""
