"""What a failover leaves in doubt stays until a verification that began after it is clean."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from migrate.state import failover, position, verification
from migrate.state import migration as migrations
from migrate.state.failover import NotedFailover
from migrate.state.migration import Migration
from migrate.state.position import Position
from tests.helpers import unique

FIRST = NotedFailover("main", 2, "db-1:3306 (11)", "db-2:3306 (12)", "time", "its lag is unknown")


@pytest.fixture
def name(state: sa.Engine) -> str:
    made = unique("m")
    with state.begin() as connection:
        migrations.create(connection, Migration(made, ()), "")
    return made


def doubts(state: sa.Engine, name: str) -> dict[str, NotedFailover]:
    with state.connect() as connection:
        return {source: found for source, (found, _) in failover.in_doubt(connection, name).items()}


def note(state: sa.Engine, name: str, *failovers: NotedFailover) -> None:
    with state.begin() as connection:
        for one in failovers:
            failover.note(connection, name, one)


def verify(state: sa.Engine, name: str) -> int:
    with state.begin() as connection:
        return verification.start(connection, name)


def settle(state: sa.Engine, name: str, run: int, *sources: str) -> int:
    with state.begin() as connection:
        return failover.settle(connection, name, run, sources)


def test_one_without_doubt_needs_no_verification(state: sa.Engine, name: str) -> None:
    note(state, name, replace(FIRST, scheme="gtid", doubt=""))
    assert doubts(state, name) == {}


def test_a_clean_verification_that_began_after_it_settles_it(state: sa.Engine, name: str) -> None:
    note(state, name, FIRST, replace(FIRST, incarnation=3))
    assert doubts(state, name) == {"main": replace(FIRST, incarnation=3)}
    assert settle(state, name, verify(state, name), "main") == 2
    assert doubts(state, name) == {}


def test_a_verification_that_began_before_it_does_not(state: sa.Engine, name: str) -> None:
    run = verify(state, name)
    note(state, name, FIRST)
    assert settle(state, name, run, "main") == 0
    assert doubts(state, name) == {"main": FIRST}


def test_other_sources_and_other_migrations_are_not_settled_with_it(state: sa.Engine, name: str) -> None:
    other = unique("m")
    note(state, name, FIRST, replace(FIRST, source="second"))
    note(state, other, FIRST)
    assert settle(state, name, verify(state, name), "main") == 1
    assert set(doubts(state, name)) == {"second"}
    assert set(doubts(state, other)) == {"main"}


def test_one_that_is_made_again_before_its_position_was_saved_is_in_doubt_again(state: sa.Engine, name: str) -> None:
    note(state, name, FIRST)
    settle(state, name, verify(state, name), "main")
    note(state, name, replace(FIRST, to_server="db-3:3306 (13)"))
    assert doubts(state, name)["main"].to_server == "db-3:3306 (13)"


def test_the_stream_the_other_way_is_settled_where_it_reads_what_was_compared(state: sa.Engine, name: str) -> None:
    back = unique("m")
    with state.begin() as connection:
        migrations.create(connection, Migration(back, ()), "")
        migrations.note_reverse(connection, back, name)
        for source, address in (("main", "db-1:3306"), ("second", "db-3:3306")):
            position.save(connection, name, Position(source, address, 11, "", 1, 1, "bin.000001", 4))
    note(state, name, FIRST, replace(FIRST, source="second"))
    compared = {"main": "DB-1:3306", "second": "db-2:3306", "third": "db-4:3306"}
    with state.begin() as connection:
        failover.settle_other(connection, back, verification.start(connection, back), compared)
    assert set(doubts(state, name)) == {"second"}, "which is read at another address since"
