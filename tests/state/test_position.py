"""How far a publisher may have published: what consumers believe of its messages."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.state import position
from migrate.state.position import Position
from tests.helpers import unique

FIRST = Position("main", "db-1:3306", 11, "uuid", 7, 1, "binlog.000012", 4)


def test_the_reach_only_rises_within_an_incarnation_and_begins_anew_with_the_next(state: sa.Engine) -> None:
    name = unique("m")

    def reach() -> tuple[int, int] | None:
        with state.connect() as connection:
            return position.reach(connection, name, "main")

    def save(saved: Position) -> tuple[int, int] | None:
        with state.begin() as connection:
            position.save(connection, name, saved)
        return reach()

    def enter(file: str) -> tuple[int, int] | None:
        with state.begin() as connection:
            position.enter(connection, name, "main", file)
        return reach()

    assert reach() is None
    assert save(FIRST) == (1, 12)
    assert enter("binlog.000014") == (1, 14)
    assert save(replace(FIRST, file="binlog.000013")) == (1, 14), "messages of file 14 may be there"
    assert enter("binlog.000012") == (1, 14)
    assert save(replace(FIRST, incarnation=2, file="other.000003")) == (2, 3), "another server's numbers"
    assert save(replace(FIRST, incarnation=2, file="other.000005")) == (2, 5)
    with state.begin() as connection:
        connection.exec_driver_sql("UPDATE position SET reach_file = 0 WHERE migration = %s", (name,))
    assert reach() == (2, 5), "of a publisher of an earlier version"
