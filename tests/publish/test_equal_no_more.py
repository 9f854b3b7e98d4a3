"""Lost: rows that a statement, another server, or somebody whom no stream saw changed without events, as an earlier
verification still armed the cutover, or the rollback (invariant certificate-binds)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from publishing import Publishing

from migrate.commands.init import initialise
from migrate.model.errors import StopError
from migrate.model.partition import Partition
from migrate.state import compared, migration
from migrate.state.compared import Because
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def beginning(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """Its publisher never ran. Statements are followed; all counts as equal, as after a verification, and so it does of
    the stream the other way."""
    made = Publishing(mysql_box.source, mysql_box.targets[0], kafka)
    made.raw["tables"][0]["ddl"] = "ignore"
    initialise(made.settings)
    with made.state.begin() as connection:
        topics = migration.get(connection, made.name).topics
        migration.create(connection, migration.Migration(other(made), topics), "")
        migration.note_reverse(connection, other(made), made.name)
        for name in (made.name, other(made)):
            compared.note(connection, name, {Partition(name, topics[0].id, 0): 0})
    yield made
    made.close()


@pytest.fixture
def main(beginning: Publishing) -> Publishing:
    beginning.publish()
    with beginning.state.begin() as connection:
        for name in (beginning.name, other(beginning)):
            (topic,) = migration.get(connection, name).topics
            compared.note(connection, name, {Partition(name, topic.id, 0): 0})
    return beginning


def other(main: Publishing) -> str:
    return f"{main.name}-reverse"


def equal(main: Publishing) -> bool:
    """Of both streams alike."""
    with main.state.connect() as connection:
        one, two = (bool(compared.load(connection, name)) for name in (main.name, other(main)))
    assert one == two
    return one


def test_a_statement_that_changes_columns_is_to_be_verified_one_that_changes_none_is_not(main: Publishing) -> None:
    main.sql("ALTER TABLE t ADD INDEX (v)", "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert equal(main)
    main.sql("ALTER TABLE t ADD seen DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", "INSERT INTO t (id) VALUES (2)")
    main.publish(2)
    assert not equal(main)


def test_a_statement_that_leaves_the_definition_as_it_was_and_other_values_is_to_be_verified(main: Publishing) -> None:
    """Lost: `ddl: ignore` followed it with a warning, and only definitions were compared."""
    main.sql("ALTER TABLE t DROP COLUMN v, ADD COLUMN v VARCHAR(20)", "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert not equal(main)


def test_a_table_that_takes_the_place_of_another_is_to_be_verified(main: Publishing) -> None:
    """Lost: that rows were purged by a swap, as by pt-online-schema-change --where: they came back at the switch."""
    main.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    main.publish(2)
    assert equal(main)
    main.sql(
        "CREATE TABLE _t_new LIKE t",
        "INSERT INTO _t_new SELECT * FROM t WHERE id = 2",
        "RENAME TABLE t TO _t_old, _t_new TO t",
        "INSERT INTO t VALUES (3, 'c')",
    )
    main.publish(3)
    assert not equal(main)


def test_a_statement_in_place_of_rows_is_passed_where_the_config_says_so_and_is_to_be_verified(
    main: Publishing,
) -> None:
    """Nobody got past one, on MariaDB of whatever table, as its log does not say what a trigger of it changed."""
    main.sql(
        "SET SESSION binlog_format = STATEMENT",
        "INSERT INTO t VALUES (1, 'a')",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO t VALUES (2, 'b')",
    )
    with pytest.raises(StopError, match="logged as a statement") as stopped:
        main.publish(2)
    assert "`publish.statements: verify`" in stopped.value.hint
    assert equal(main)
    main.raw["publish"]["statements"] = "verify"
    main.publish(2)
    assert main.keys() == [2]
    assert not equal(main)
    with main.state.connect() as connection:
        forgotten = compared.why_nothing(connection, main.name)
    assert forgotten is not None
    assert forgotten.because == f"{Because.STATEMENT}: main"


def test_another_server_behind_the_address_is_to_be_verified(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert equal(main)
    assert main.position is not None
    main.store(replace(main.position, server_id=main.position.server_id + 7))
    main.sql("INSERT INTO t VALUES (2, 'a')")
    main.publish(2)
    assert not equal(main)


def test_where_a_stream_begins_to_read_is_to_be_verified_for_both(beginning: Publishing) -> None:
    """Lost: a row that was deleted by hand at a target between a clean verification and the first position of the
    stream from there; no list had it, and the cutover made it the truth."""
    assert equal(beginning)
    beginning.publish()
    assert not equal(beginning)
