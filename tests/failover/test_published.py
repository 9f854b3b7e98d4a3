"""What a topic holds beyond a stored position, read back from the ends of its partitions."""

from __future__ import annotations

from migrate.kafka import admin
from migrate.kafka.producer import OrderedProducer
from migrate.model.message import Message, encode
from migrate.publish import unacknowledged
from migrate.settings import Settings
from migrate.state.migration import Migration, Topic
from migrate.state.position import Position
from sandbox.broker import KafkaBroker
from tests.helpers import make_settings, unique


def message(
    gtid: str, transaction: int, *, incarnation: int = 2, file: int = 3, source: str = "s", es: int = 0
) -> bytes:
    return encode(
        Message(
            database="shop",
            table="t",
            type="INSERT",
            data=({"id": "1"},),
            old=None,
            source=source,
            incarnation=incarnation,
            file=file,
            transaction=transaction,
            rows=(0,),
            gtid=gtid,
            es=es,
        )
    )


def of_topic(settings: Settings, partitions: int) -> Migration:
    return Migration(settings.name, (Topic(settings.topic, "an id", partitions),))


def test_transactions_at_or_after_the_position_are_found_in_every_partition(kafka: KafkaBroker) -> None:
    """Lost: rows that a copy read while what a killed publisher had sent came again after a failover."""
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap, "topic": unique("published"), "partitions": 3})
    admin.create_topic(settings.kafka, settings.topic, 3)
    parts = {
        0: [
            message("before", 1999),
            *(message(f"0-1-{number}", 2000 + number, es=number) for number in range(1200)),  # more than one block
        ],
        1: [
            b"of nobody",
            message("other source", 5000, source="other"),
            message("third", 4, file=4),
            message("old incarnation", 9000, incarnation=1),
        ],
        2: [],
    }
    producer = OrderedProducer(settings.kafka)
    for number, values in parts.items():
        for value in values:
            producer.produce(settings.topic, number, value)
    assert producer.flush(60)
    stored = Position("s", "a:1", 1, "", 1, 2, "b.000003", 2000)
    found = unacknowledged.beyond(settings, of_topic(settings, 3), stored, {})
    assert found.gtids == {"third", *(f"0-1-{number}" for number in range(1200))}
    assert found.newest == 1


def test_an_empty_topic_has_nothing(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap, "topic": unique("published"), "partitions": 1})
    admin.create_topic(settings.kafka, settings.topic, 1)
    found = unacknowledged.beyond(settings, of_topic(settings, 1), Position("s", "a:1", 1, "", 1, 1, "b.000001", 4), {})
    assert (found.gtids, found.newest) == (set(), 0)
