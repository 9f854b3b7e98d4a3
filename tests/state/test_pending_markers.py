"""Markers that wait in the state: each once, by what it says, until it was sent; and who waits for all generations."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.message import CASCADE, Message
from migrate.model.message_reader import decode
from migrate.state import pending_markers
from migrate.state.pending_markers import Generations
from tests.helpers import unique

TABLE, OTHER = ("s", "shop", "t"), ("s", "shop", "other")


def marker(value: str, transaction: int, table: str = "t") -> Message:
    return Message("shop", table, CASCADE, ({"p": value},), "s", 1, 1, transaction, (0,), sql="ON DELETE CASCADE")


def test_a_marker_waits_once_behind_the_latest_change_until_it_was_sent(state: sa.Engine) -> None:
    name = unique("m")
    with state.begin() as connection:
        first = [(TABLE, marker("1", 10)), (TABLE, marker("2", 20)), (OTHER, marker("1", 10, "other"))]
        pending_markers.put(connection, name, first, copied=True)
        pending_markers.put(connection, name, [(TABLE, marker("1", 30))], copied=True)
        pending_markers.put(connection, name, [(TABLE, marker("1", 20))], copied=True)
        pending_markers.put(connection, name, [(TABLE, marker("3", 5))], copied=False)
        assert pending_markers.count(connection, name) == 3, "those that wait for a copy"
        found = pending_markers.every(connection, name)
        assert [(one.table, one.after, one.copied) for one in found] == [
            (TABLE, Coordinate(1, 1, 5, 0), False),
            (TABLE, Coordinate(1, 1, 30, 0), True),
            (TABLE, Coordinate(1, 1, 20, 0), True),
            (OTHER, Coordinate(1, 1, 10, 0), True),
        ]
        messages = pending_markers.messages(connection, found[1:3])
        said = [decode(messages[one.id].encode(), "", 0).data for one in found[1:3]]
        assert said == [({"p": "1"},), ({"p": "2"},)]
        pending_markers.put(
            connection, name, [(TABLE, marker("2", 25))], copied=True
        )  # while the others are on their way
        pending_markers.sent(connection, name, found[:3])
        assert [one.id for one in pending_markers.every(connection, name)] == [found[2].id, found[3].id]
        pending_markers.put(connection, name, [(TABLE, marker("1", 40))], copied=False)
        assert len(pending_markers.every(connection, name)) == 3
        pending_markers.forget(connection, name, TABLE)
        assert pending_markers.count(connection, name) == 1


def test_a_marker_that_follows_no_change_says_so_until_it_was_sent(state: sa.Engine) -> None:
    name = unique("m")
    with state.begin() as connection:
        of_a_refresh = replace(marker("1", 0), incarnation=0, file=0)
        pending_markers.put(connection, name, [(TABLE, of_a_refresh)], copied=False)
        found = pending_markers.every(connection, name)
        assert [one.after for one in found] == [None]
        pending_markers.sent(connection, name, found)
        assert pending_markers.every(connection, name) == []


def test_one_that_is_to_come_again_after_a_copy_is_not_taken_for_the_one_that_came(state: sa.Engine) -> None:
    """Lost: what a foreign key had done to rows that the copy brought later: the wait for its end was put between the
    broker's acknowledgement and its note, and went with that note."""
    name = unique("m")
    with state.begin() as connection:
        pending_markers.put(connection, name, [(TABLE, marker("1", 10))], copied=False)
        on_their_way = pending_markers.every(connection, name)
        pending_markers.put(connection, name, [(TABLE, marker("1", 10))], copied=True)  # it came, and the copy is open
        pending_markers.sent(connection, name, on_their_way)
        assert [one.copied for one in pending_markers.every(connection, name)] == [True]


def test_who_waits_for_all_of_them_waits_for_those_that_come_of_them(state: sa.Engine) -> None:
    name = unique("m")
    one = Generations(name)
    with state.begin() as connection:
        assert one.sent(connection)
        assert one.none_yet
        assert one.last(connection), "none was ever put"

        pending_markers.put(connection, name, [(TABLE, marker("1", 10))], copied=False)
        pending_markers.put(connection, name, [(OTHER, marker("1", 10, "other"))], copied=True)
        assert not one.sent(connection)
        pending_markers.sent(connection, name, pending_markers.every(connection, name)[:1])
        assert one.sent(connection), "one waits for a copy, which may take days"
        pending_markers.put(connection, name, [(TABLE, marker("2", 10))], copied=False)
        assert not one.last(connection)
        assert not one.sent(connection)
        pending_markers.sent(connection, name, pending_markers.every(connection, name)[:1])
        assert one.sent(connection)
        assert one.last(connection)
