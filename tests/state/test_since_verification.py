"""What a clean verification settles, where the state server's clock is set back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.partition import Partition
from migrate.state import check, foreign, left_out_messages, oversized, reached, verification
from migrate.state import migration as migrations
from migrate.state.migration import Migration
from tests.helpers import unique

TABLE = ("main", "shop", "orders")
AT = Coordinate(1, 2, 30, 0)
Note = Callable[[sa.Connection, str], None]
Count = Callable[[sa.Connection, str, "int | None"], int]


def by_hand(connection: sa.Connection, name: str) -> None:
    foreign.note(connection, name, [foreign.ForeignWrite(TABLE, ("7",), foreign.Kind.FOREIGN, AT)])


def too_large(connection: sa.Connection, name: str) -> None:
    oversized.note(connection, name, oversized.Oversized("main", "shop", "orders", "INSERT", '["7"]', AT, 2_000_000))


def checked(connection: sa.Connection, name: str) -> None:
    check.put(connection, name, TABLE, [(("7",), "missing", "")])


def skipped(connection: sa.Connection, name: str) -> None:
    left_out_messages.note(connection, Partition(name, "topic", 0), 5, b"{}", "refused", "by hand")


def lost(connection: sa.Connection, name: str) -> None:
    reached.note_lost(connection, name, reached.LostMessages(("t0", "shop_0"), "topic [0]", 2, 5, 5))


NOTED: dict[str, tuple[Note, Count]] = {
    "a foreign write": (by_hand, lambda connection, name, _: foreign.count(connection, name)),
    "a row above the broker's limit": (too_large, lambda *at: len(oversized.every(*at))),
    "a row that the check found different": (
        checked,
        lambda connection, name, since: check.count(connection, name, verification=since),
    ),
    "a message that was left out": (skipped, left_out_messages.count),
    "writes that a target lost": (lost, lambda *at: len(reached.lost_since(*at))),
}


def migration(connection: sa.Connection) -> str:
    name = unique("since")
    migrations.create(connection, Migration(name, ()), "")
    return name


def clean(connection: sa.Connection, name: str, hours: int) -> None:
    """A verification that finds all equal, begun at a time that is off by so many hours."""
    connection.exec_driver_sql(f"SET SESSION timestamp = UNIX_TIMESTAMP(NOW(6)) + {hours * 3600}")
    number = verification.start(connection, name)
    certificate = {"tables": ["orders"], "rows": 1, "differences": 0, "in_motion": 0, "all_tables": True}
    verification.finish(connection, number, certificate)
    connection.exec_driver_sql("SET SESSION timestamp = DEFAULT")


@pytest.mark.parametrize("what", NOTED)
def test_a_verification_settles_what_was_noted_before_it_began_and_nothing_else(state: sa.Engine, what: str) -> None:
    """Lost: what was noted after a verification, and counted as settled by it once the clock had been set back."""
    note, count = NOTED[what]
    with state.begin() as connection:
        name = migration(connection)
        note(connection, name)
        assert count(connection, name, verification.equal_since(connection, name)) == 1
        clean(connection, name, -1)
        assert count(connection, name, verification.equal_since(connection, name)) == 0
        clean(connection, name, 1)
        note(connection, name)
        if what in ("a row above the broker's limit", "a message that was left out"):  # said again, it is no other one
            connection.exec_driver_sql(f"DELETE FROM {'oversized' if 'limit' in what else 'left_out'}")
            note(connection, name)
        assert count(connection, name, verification.equal_since(connection, name)) == 1
        clean(connection, name, -1)
        assert count(connection, name, verification.equal_since(connection, name)) == 0


def test_a_certificate_of_a_time_that_is_yet_to_come_is_not_fresh(state: sa.Engine) -> None:
    with state.begin() as connection:
        name = migration(connection)
        clean(connection, name, 0)
        assert verification.is_fresh(connection, name, 24)
        clean(connection, name, 1)
        assert not verification.is_fresh(connection, name, 24)


def verified(connection: sa.Connection, name: str, *found: tuple[str, int, int], every: bool = False) -> None:
    """A verification of some tables, or of every one: (table, differences, keys in motion)."""
    tables = [
        {"source": "main", "table": table, "differences": differences, "in_motion": moving}
        for table, differences, moving in found
    ]
    summed = {"differences": sum(one[1] for one in found), "in_motion": sum(one[2] for one in found)}
    number = verification.start(connection, name)
    verification.finish(connection, number, {"tables": tables, "rows": 1, "all_tables": every, **summed})


def test_what_a_verification_finds_stands_until_the_table_or_all_are_found_equal(state: sa.Engine) -> None:
    """A run that found differences took nothing from an earlier clean one, and a clean one of another table did."""

    def differing(name: str) -> int:
        return verification.differing_since(connection, name, verification.equal_since(connection, name))

    with state.begin() as connection:
        name = migration(connection)
        back = name + "_reverse"
        migrations.create(connection, Migration(back, ()), "")
        migrations.note_reverse(connection, back, name)
        assert differing(name) == 0
        clean(connection, name, 0)
        verified(connection, back, ("a", 2, 0), ("b", 1, 0), every=True)
        assert (differing(name), differing(back)) == (3, 3)
        verified(connection, name, ("a", 0, 0))
        assert differing(name) == 1, "b still differs"
        verified(connection, name, ("b", 0, 4))
        assert differing(name) == 1, "what was in motion was not seen to be equal"
        verified(connection, name, ("b", 5, 4))
        assert differing(name) == 5
        verified(connection, name, ("a", 0, 0), ("b", 0, 0), every=True)
        assert differing(name) == 0
