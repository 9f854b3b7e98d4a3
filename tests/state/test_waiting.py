"""Markers that wait in the state: each once, by what it says, until it came back."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.model.message import CASCADE, Message, decode
from migrate.model.partition import Partition
from migrate.state import waiting

TABLE = ("s", "shop", "t")
PARTITION = Partition("m", "topic", 3)


def marker(value: str, transaction: int, table: str = "t") -> Message:
    return Message("shop", table, CASCADE, ({"p": value},), "s", 1, 1, transaction, (0,), sql="ON DELETE CASCADE")


def test_a_marker_waits_once_until_it_came_back(state: sa.Engine) -> None:
    with state.begin() as connection:
        for value, transaction in (("1", 10), ("1", 20), ("2", 20)):
            waiting.put(connection, PARTITION, TABLE, marker(value, transaction))
        waiting.put(connection, Partition("m", "topic", 4), TABLE, marker("1", 10))
        waiting.put(connection, PARTITION, ("s", "shop", "other"), marker("1", 10, "other"))
        assert waiting.count(connection, "m") == 4
        assert waiting.of_tables(connection, "m") == {TABLE, ("s", "shop", "other")}
        found = waiting.some(connection, "m", [TABLE])
        assert [decode(one.message.encode(), "", 0).data for one in found if one.partition == PARTITION] in (
            [({"p": "1"},), ({"p": "2"},)],
            [({"p": "2"},), ({"p": "1"},)],
        )
        waiting.came_back(connection, found)
        assert waiting.of_tables(connection, "m") == {("s", "shop", "other")}
        waiting.forget(connection, "m", ("s", "shop", "other"))
        assert waiting.count(connection, "m") == 0
