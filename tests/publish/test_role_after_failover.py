"""Lost: what applications wrote after a failover to a server that lacks the last switch's role, which nobody carried
(invariant standby-only)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from publishing import Publishing, with_reverse

from migrate.state import schema_history, switch
from migrate.state.switch import Side, Writes
from migrate.target.roles import ROLE, Role
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """A publisher that never ran, of a migration with a reverse stream; on MySQL, which logs what it replicates."""
    made = with_reverse(mysql_box.source, mysql_box.targets[0], kafka)
    yield made
    made.close()


def switched(main: Publishing, side: Side) -> None:
    """In the state alone, as where the server with the role was lost."""
    with main.state.begin() as connection:
        switch.put(connection, main.name, side, Writes.OPEN)


def role(main: Publishing) -> tuple[str, int]:
    ((found, version),) = main.source.query(f"SELECT role, version FROM {main.database}.{ROLE}")
    return str(found), int(version)


def standby(main: Publishing) -> list[bool]:
    """Of each message, whether its rows are to be carried by nobody."""
    return [bool(message["pos"].get("standby")) for message in main.messages()]


def fail_over(main: Publishing) -> None:
    """The stored position is of another server from here on."""
    assert main.position is not None
    main.store(replace(main.position, server_id=main.position.server_id + 7))


def test_what_is_written_after_a_rollback_whose_role_the_new_server_lacks_is_carried(main: Publishing) -> None:
    switched(main, Side.TARGET)
    with main.running():  # sets the role right, as a server that was away in the cutover needs it
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (1, 'by hand')")
        main.until(lambda: main.keys() == [1], "the row that was written by hand")
        main.until_at_end()
    assert (standby(main), role(main)) == ([True], (Role.STANDBY, 2))
    switched(main, Side.SOURCE)
    main.sql("INSERT INTO t VALUES (2, 'by an application')")
    fail_over(main)
    main.publish(2)
    assert (standby(main), role(main)) == ([True, False], (Role.ACTIVE, 3))


def test_the_log_decides_where_the_new_server_has_the_role(main: Publishing) -> None:
    main.publish()
    switched(main, Side.TARGET)
    main.sql("INSERT INTO t VALUES (1, 'before the role')")
    main.sql(f"UPDATE {ROLE} SET role = 'standby', version = 2, writes = writes + 1", "INSERT INTO t VALUES (2, 'x')")
    fail_over(main)
    main.publish(1, 2)
    assert standby(main) == [False, True]


def test_what_cannot_be_set_is_told_and_nothing_stops(main: Publishing) -> None:
    main.publish()
    main.sql(f"DROP TABLE {ROLE}")
    switched(main, Side.TARGET)
    fail_over(main)
    main.sql("INSERT INTO t VALUES (1, 'x')")
    main.publish(1)
    with main.state.connect() as connection:
        assert main.position is not None
        found = schema_history.in_force(connection, main.name, "main", main.position.coordinate, main.position.server)
    assert found[schema_history.SIDE].role == Role.ACTIVE
