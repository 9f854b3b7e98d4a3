"""What a side had before its applications left it is not published again, once they are back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from publishing import Publishing, equal, note_equal, with_reverse

from migrate.commands.rewind import rewind
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.state import ddl as journal
from migrate.state import foreign, migration, switch
from migrate.state.switch import Side, Writes
from migrate.target.roles import ROLE
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """Of a migration with a reverse stream."""
    made = with_reverse(mysql_box.source, mysql_box.targets[0], kafka)
    yield made
    made.close()


def switched(main: Publishing, side: Side, *roles: str) -> None:
    """As a cutover or a rollback leaves the state, and the source's log."""
    with main.state.begin() as connection:
        switch.put(connection, main.name, side, Writes.OPEN)
        version = switch.get(connection, main.name).version
    for role in roles:
        main.sql(f"UPDATE {ROLE} SET role = '{role}', version = {version}, writes = writes + 1")


def place(main: Publishing) -> str:
    file, pos = main.log_end()
    return f"{file}:{pos}"


def gone_back(main: Publishing, to: str) -> None:
    rewind(main.settings, main.state, "main", to, lambda _before, _after: True)


def test_a_stream_that_leads_again_does_not_go_back_behind_the_last_two_switches(main: Publishing) -> None:
    """Lost: rows that applications wrote at the other side meanwhile, under the older ones of before; what the other
    stream had written here is published by nobody."""
    main.publish()
    before = place(main)
    main.sql("INSERT INTO t VALUES (1, 'of the first time')")
    main.publish(1)
    switched(main, Side.TARGET, "frozen", "standby")
    main.publish(1)
    meanwhile = place(main)
    switched(main, Side.SOURCE, "frozen", "active")
    main.sql("INSERT INTO t VALUES (2, 'of the second')")
    main.publish(1, 2)
    with pytest.raises(StopError, match="before applications left it and came back") as caught:
        gone_back(main, before)
    gone_back(main, meanwhile)
    main.publish(1, 2, 2)
    named = caught.value.hint.partition(", from ")[2].partition(" on;")[0]
    gone_back(main, named)
    main.publish(1, 2, 2, 2)
    switched(main, Side.TARGET, "frozen", "standby")
    switched(main, Side.SOURCE, "frozen", "active")
    main.sql("INSERT INTO t VALUES (3, 'of the third')")
    main.publish(2, 3)
    with pytest.raises(StopError, match="before applications left it and came back"):
        gone_back(main, meanwhile)  # where it was standby itself, and led again, and was left again


def test_a_cutover_that_gave_writes_back_is_no_switch(main: Publishing) -> None:
    main.publish()
    before = place(main)
    main.sql("INSERT INTO t VALUES (1, 'a')")
    switched(main, Side.SOURCE, "frozen", "active")
    main.sql("INSERT INTO t VALUES (2, 'b')")
    main.publish(1, 2)
    gone_back(main, before)
    main.publish(1, 2, 1, 2)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW SET @a = 1",
        "/*!50003 CREATE*/ /*!50003 TRIGGER r BEFORE DELETE ON `t` FOR EACH ROW SET @a = 1 */",
    ],
)
def test_a_trigger_that_is_made_or_dropped_at_a_standby_side_is_to_be_verified(main: Publishing, made: str) -> None:
    """Lost: rows that it changed in a stream's transactions; a cutover looked for the triggers that are there then,
    and an account without TRIGGER saw none."""
    main.publish()
    note_equal(main)
    main.sql("CREATE TABLE u (id INT)", made, "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert equal(main), "where applications write, its changes are in the log"
    switched(main, Side.TARGET, "frozen", "standby")
    main.sql("DROP TRIGGER r", "INSERT INTO t VALUES (2, 'a')")
    main.publish(1, 2)
    assert not equal(main), "it may have fired since the switch"
    note_equal(main)
    main.sql("CREATE TRIGGER other AFTER INSERT ON u FOR EACH ROW SET @a = 1", "INSERT INTO t VALUES (3, 'a')")
    main.publish(2, 3)
    assert equal(main)
    main.sql(made, "INSERT INTO t VALUES (4, 'a')")
    main.publish(3, 4)
    assert not equal(main)


def test_what_is_published_again_is_to_be_verified(main: Publishing) -> None:
    """Lost: that a grandchild which a foreign key had taken came back with its INSERT, and nothing took it again."""
    main.publish()
    before = place(main)
    main.sql("INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    note_equal(main)
    gone_back(main, before)
    assert not equal(main)


def test_a_standby_table_that_is_emptied_by_hand_is_listed_as_a_whole_and_stops_nobody(main: Publishing) -> None:
    """Lost: the reverse stream, which asked for a new migration; a DELETE of every row was listed and settled."""
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        switched(main, Side.TARGET, "frozen", "standby")
        main.sql("INSERT INTO t VALUES (1, 'of the stream')", "TRUNCATE t", "INSERT INTO t VALUES (2, 'by hand')")
        main.until(lambda: main.keys() == [1, 2], "what was written by hand")
        main.until_at_end()
    with main.state.connect() as connection:
        ((id_, key),) = [(one.id, one.key) for one in foreign.every(connection, main.name)]
    assert (id_, key) == (("main", main.database, "t"), None)
    switched(main, Side.SOURCE, "frozen", "active")
    main.sql("TRUNCATE t")
    with pytest.raises(StopError, match="its rows come or go without events"), main.running():
        main.until(lambda: False, "it to stop")


def test_a_standby_table_that_a_stream_empties_is_nobodys_write(main: Publishing) -> None:
    """Lost: a switch, which waited until every key of the table was compared."""
    mark = journal.mark("main", Coordinate(0, 1, 4, 1))
    with main.state.begin() as connection:
        other = migration.other_way(connection, main.name)
        row = journal.ShardRow(1, "target", "t0", main.database, "t", None, "", "", "", "", "")
        journal.create(connection, other, f"{mark} TRUNCATE t", "", "", [row])
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        switched(main, Side.TARGET, "frozen", "standby")
        main.sql(f"{mark} TRUNCATE t", "INSERT INTO t VALUES (1, 'behind it')")
        main.until(lambda: main.keys() == [1], "what is behind it")
        main.until_at_end()
        assert foreign_tables(main) == []
        main.sql(f"{journal.mark('main', Coordinate(0, 1, 5, 1))} TRUNCATE t")
        main.until(lambda: foreign_tables(main) != [], "one that no run has")
        with main.state.begin() as connection:
            foreign.forget(connection, main.name, ("main", main.database, "t"))
            connection.execute(
                sa.update(journal.shards).where(journal.shards.c.migration == other).values(table_name="u")
            )
        main.sql(f"{mark} TRUNCATE t")
        main.until(lambda: foreign_tables(main) != [], "one of a run of another table")


def foreign_tables(main: Publishing) -> list[str]:
    with main.state.connect() as connection:
        return [one.id[2] for one in foreign.every(connection, main.name) if one.key is None]
