"""Markers that wait in the state: each once, by what it says, until it was sent; and who waits for all generations."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.message import CASCADE, Message, decode
from migrate.state import waiting
from migrate.state.waiting import Generations
from tests.helpers import unique

TABLE, OTHER = ("s", "shop", "t"), ("s", "shop", "other")


def marker(value: str, transaction: int, table: str = "t") -> Message:
    return Message("shop", table, CASCADE, ({"p": value},), "s", 1, 1, transaction, (0,), sql="ON DELETE CASCADE")


def test_a_marker_waits_once_behind_the_latest_change_until_it_was_sent(state: sa.Engine) -> None:
    name = unique("m")
    with state.begin() as connection:
        first = [(TABLE, marker("1", 10)), (TABLE, marker("2", 20)), (OTHER, marker("1", 10, "other"))]
        waiting.put(connection, name, first, copied=True)
        waiting.put(connection, name, [(TABLE, marker("1", 30))], copied=False)
        waiting.put(connection, name, [(TABLE, marker("1", 20))], copied=True)
        assert waiting.count(connection, name) == 2, "those that wait for a copy"
        found = waiting.every(connection, name)
        assert [(one.table, one.after, one.copied) for one in found] == [
            (TABLE, Coordinate(1, 1, 30, 0), False),
            (TABLE, Coordinate(1, 1, 20, 0), True),
            (OTHER, Coordinate(1, 1, 10, 0), True),
        ]
        messages = waiting.messages(connection, found[:2])
        said = [decode(messages[one.id].encode(), "", 0).data for one in found[:2]]
        assert said == [({"p": "1"},), ({"p": "2"},)]
        waiting.put(connection, name, [(TABLE, marker("2", 25))], copied=True)  # while the others are on their way
        waiting.sent(connection, name, found[:2])
        assert [one.id for one in waiting.every(connection, name)] == [found[1].id, found[2].id]
        waiting.put(connection, name, [(TABLE, marker("1", 40))], copied=False)
        assert len(waiting.every(connection, name)) == 3
        waiting.forget(connection, name, TABLE)
        assert waiting.count(connection, name) == 1


def test_who_waits_for_all_of_them_waits_for_those_that_come_of_them(state: sa.Engine) -> None:
    name = unique("m")
    one = Generations(name)
    with state.begin() as connection:
        assert one.sent(connection)
        assert one.none_yet
        assert one.last(connection), "none was ever put"

        waiting.put(connection, name, [(TABLE, marker("1", 10))], copied=False)
        waiting.put(connection, name, [(OTHER, marker("1", 10, "other"))], copied=True)
        assert not one.sent(connection)
        waiting.sent(connection, name, waiting.every(connection, name)[:1])
        assert one.sent(connection), "one waits for a copy, which may take days"
        waiting.put(connection, name, [(TABLE, marker("2", 10))], copied=False)
        assert not one.last(connection)
        assert not one.sent(connection)
        waiting.sent(connection, name, waiting.every(connection, name)[:1])
        assert one.sent(connection)
        assert one.last(connection)
