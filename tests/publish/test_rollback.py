"""What is not published, or not yet: a message that Kafka refuses, an XA transaction that is not committed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from publishing import Publishing

from migrate.model.errors import StopError
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka)
    yield made
    made.close()


def limit(main: Publishing, size: int) -> None:
    """What the topic takes: below the client's own limit, so that only the broker can refuse."""
    change = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, main.settings.topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": main.kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)
    time.sleep(0.5)  # the brokers hear of it a moment later


def many(first: int, count: int) -> str:
    """One transaction whose rows do not shrink when compressed."""
    return "INSERT INTO t VALUES " + ", ".join(
        f"({key}, LEFT(SHA2({key}, 256), 32))" for key in range(first, first + count)
    )


def test_what_kafka_refuses_comes_again_once_it_takes_it(main: Publishing) -> None:
    with main.running() as publisher:
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (1, 'a')")
        main.until(lambda: main.keys() == [1], "the first row")
        main.until_at_end()
        before = publisher._producer
        limit(main, 2000)
        main.sql("INSERT INTO t VALUES (2, 'b')", many(3, 400), "INSERT INTO t VALUES (999, 'z')")
        main.until(lambda: publisher._producer is not before, "a rollback")
        stuck = main.position
        assert stuck is not None
        assert (stuck.file, stuck.pos) < main.log_end()
        limit(main, 1_000_000)
        main.until_at_end()
    assert main.effective_keys() == [1, *range(2, 403), 999]


def test_transactions_that_wait_for_each_other_arrive_in_order(box: Sandbox, kafka: KafkaBroker) -> None:
    main = Publishing(box.source, box.targets[0], kafka, batch_rows=50, batch_seconds=0.3, heartbeat_seconds=5.0)
    try:
        with main.running() as publisher:
            main.until(lambda: main.position is not None, "the first position")
            first = publisher._batches.acknowledged.batch
            main.sql(*(f"INSERT INTO t VALUES ({key}, 'x')" for key in range(1, 121)), many(121, 80))
            main.until_at_end()
            assert publisher._batches.acknowledged.batch - first < 60  # or each went by itself
        assert main.keys() == list(range(1, 201))
        assert main.coordinates() == sorted(set(main.coordinates()))
    finally:
        main.close()


@pytest.mark.parametrize("rows", [2, 40])
def test_nothing_of_an_xa_transaction_is_published_before_it_is_committed(
    box: Sandbox, kafka: KafkaBroker, rows: int
) -> None:
    """Lost: that it was rolled back. Above publish.transaction_rows it went in pieces, before its end was read."""
    main = Publishing(box.source, box.targets[0], kafka, transaction_rows=8)
    with closing(main):
        main.publish()
        main.sql("XA START 'x'", many(1, rows), "XA END 'x'", "XA PREPARE 'x'")
        try:
            with pytest.raises(StopError, match="XA") as caught, main.running():
                main.until(lambda: False, "it to stop")
            assert ("publish.transaction_rows" in caught.value.hint) is (rows == 40)
            assert main.keys() == []
        finally:
            main.sql("XA ROLLBACK 'x'")


ROLLED_BACK = {
    "whole": ("ROLLBACK", []),
    "to a savepoint": ("ROLLBACK TO s", None),
    "nothing": ("COMMIT", list(range(1, 41))),
}


@pytest.mark.parametrize("what", ROLLED_BACK)
def test_rows_that_the_log_has_and_were_rolled_back_are_not_published_in_pieces(
    mariadb_box: Sandbox, kafka: KafkaBroker, what: str
) -> None:
    """Lost: rows of the targets that the source had as before. Above publish.transaction_rows a transaction went in
    pieces, before its end was read; MariaDB logs it where a table without transactions changed too."""
    main = Publishing(mariadb_box.source, mariadb_box.targets[0], kafka, transaction_rows=8)
    end, keys = ROLLED_BACK[what]
    with closing(main):
        main.sql("CREATE TABLE untouched (id INT) ENGINE=MyISAM")
        main.publish()
        main.sql(
            "BEGIN", many(1, 4), "SAVEPOINT s", *(many(first, 4) for first in range(5, 41, 4)),
            "INSERT INTO untouched VALUES (1)", end, "COMMIT", "INSERT INTO t VALUES (99, 'behind it')",
        )  # fmt: skip
        if keys is None:
            with pytest.raises(StopError, match="something is rolled back") as caught, main.running():
                main.until(lambda: False, "it to stop")
            assert "publish.transaction_rows" in caught.value.hint
            assert main.keys() == []
            main.raw["publish"]["transaction_rows"] = 100
            keys = [1, 2, 3, 4]
        main.publish(*keys, 99)
        assert main.keys() == [*keys, 99]
