"""Lost: rows that a statement or another server changed without events, as an earlier verification still armed the
cutover (rule "a certificate binds")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from publishing import Publishing

from migrate.model.partition import Partition
from migrate.ops.init import initialise
from migrate.state import compared, migration
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """Statements are followed; all counts as equal, as after a verification."""
    made = Publishing(mysql_box.source, mysql_box.targets[0], kafka)
    made.raw["tables"][0]["ddl"] = "ignore"
    initialise(made.settings)
    made.publish()
    with made.state.begin() as connection:
        (topic,) = migration.get(connection, made.name).topics
        compared.note(connection, made.name, {Partition(made.name, topic.id, 0): 0})
    yield made
    made.close()


def equal(main: Publishing) -> bool:
    with main.state.connect() as connection:
        return bool(compared.load(connection, main.name))


def test_a_statement_that_changes_columns_is_to_be_verified_one_that_changes_none_is_not(main: Publishing) -> None:
    main.sql("ALTER TABLE t ADD INDEX (v)", "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert equal(main)
    main.sql("ALTER TABLE t ADD seen DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", "INSERT INTO t (id) VALUES (2)")
    main.publish(2)
    assert not equal(main)


def test_another_server_behind_the_address_is_to_be_verified(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert equal(main)
    assert main.position is not None
    main.store(replace(main.position, server_id=main.position.server_id + 7))
    main.sql("INSERT INTO t VALUES (2, 'a')")
    main.publish(2)
    assert not equal(main)
