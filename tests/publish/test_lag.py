"""The lag that `migrate status` tells is that of the oldest change which is not at the target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from confluent_kafka import Producer
from publishing import Publishing

from migrate.commands.rewind import clear_batches
from migrate.model.errors import PreflightError
from migrate.model.message import Message, encode
from migrate.state import migration as migrations
from migrate.state import outstanding, record
from migrate.state.outstanding import ListedBatches
from migrate.state.record import Consumed
from migrate.status import snapshot_reading
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.waiting import SLOW


@pytest.fixture
def main(mariadb_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(mariadb_box.source, mariadb_box.targets[0], kafka)
    yield made
    made.close()


def lag(main: Publishing) -> float:
    return snapshot_reading.read(main.settings, main.state).lag_seconds


def test_it_counts_from_when_the_idle_source_was_last_read_to_its_end(main: Publishing) -> None:
    noted = f"SELECT idle_at FROM {main.name}_state.outstanding"
    with main.running():
        main.until(lambda: main.position is not None and main.scalar(noted) is not None, "a heartbeat")
        first = main.scalar(noted)
        main.until(lambda: main.scalar(noted) > first, "another one")
        assert lag(main) == 0
    down = time.monotonic()
    assert main.position is not None
    main.store(replace(main.position, event_time=datetime(2020, 1, 1)))  # noqa: DTZ001 - UTC, as the state has it
    assert lag(main) == 0  # nothing to publish
    time.sleep(1.5)
    main.sql("INSERT INTO t VALUES (1, 'a')")
    told = lag(main)
    assert 1.4 <= told <= time.monotonic() - down + SLOW  # and not years


def test_it_is_the_age_of_the_first_change_that_waits_in_the_topic(main: Publishing) -> None:
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        written = time.monotonic()
        main.sql("INSERT INTO t VALUES (1, 'a')")
        time.sleep(2.0)
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until(lambda: main.keys() == [1, 2], "both rows")
        main.until_at_end()
        assert 2.0 <= lag(main) <= time.monotonic() - written + 1.5  # commit times are whole seconds


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"source": "nobody", "es": 1000}, 0.0),
        ({"incarnation": 7, "es": 1000}, 0.0),
        ({"es": 1000}, 0.0),  # before what is applied
        ({"es": 4_000_000_000_000}, 60.0),  # 2096
    ],
)
def test_a_message_of_somebody_else_does_not_make_the_lag(main: Publishing, said: dict[str, Any], told: float) -> None:
    """Lost: no row, but a cutover: any time in a message that no publisher had sent was the lag: years, or nothing
    where changes waited. Costs 3 s."""
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (1, 'a')")
        main.until(lambda: main.keys() == [1], "the row")
        main.until_at_end()
    (part,) = snapshot_reading.read(main.settings, main.state).partitions
    with main.state.begin() as connection:
        applied = (int(connection.execute(sa.select(sa.func.unix_timestamp())).scalar_one()) - int(told)) * 1000
        (where,) = migrations.get(connection, main.name).partitions
        record.mark_consumed(connection, [Consumed(where, part.end, {}, 1, 1, applied)])
    at: dict[str, Any] = {"source": "main", "incarnation": 1, "file": 1, "transaction": 4, "es": 5, **said}
    message = Message(database="shop", table="t", type="INSERT", data=({"id": "9"},), rows=(0,), **at)
    producer = Producer({"bootstrap.servers": main.settings.kafka.bootstrap})
    producer.produce(part.topic, encode(message), partition=part.partition)
    assert producer.flush(20) == 0
    found = snapshot_reading.read(main.settings, main.state)
    assert found.waiting_messages == 1
    assert told <= found.lag_of_consumers <= told + 20


def test_a_killed_publishers_batches_are_listed_until_they_are_cleared(main: Publishing) -> None:
    listed = ListedBatches(2, 5, 50, ((11, 2, 20, "binlog.000001:100"), (12, 3, 30, "")))
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        with pytest.raises(PreflightError, match="runs"):
            clear_batches(main.settings, main.state, "main")
    with main.state.begin() as connection:
        outstanding.put(connection, main.name, "main", listed)
    assert snapshot_reading.read(main.settings, main.state).sources[0].outstanding["batches"] == 2
    assert clear_batches(main.settings, main.state, "main") == 2
    assert snapshot_reading.read(main.settings, main.state).sources[0].outstanding["batches"] == 0
