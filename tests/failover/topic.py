"""What is in a topic, read with a client of its own: how often each change was sent, and in which order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from sandbox.broker import KafkaBroker
from tests.failover.support import SLOW

Place = tuple[int, int, int]
"""Of a transaction: incarnation, file number, where it starts."""


def messages(kafka: KafkaBroker, topic: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(Partition, the broker's time in milliseconds, message) of every message up to the end now, in the order of its
    partition."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "oracle", "enable.auto.commit": False})
    with closing(consumer):
        for partition in consumer.list_topics(topic, timeout=SLOW).topics[topic].partitions:
            end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SLOW)[1]
            consumer.assign([TopicPartition(topic, partition, 0)])
            offset = 0
            while offset < end:
                for message in consumer.consume(500, 1.0):
                    assert message.error() is None, message.error()
                    offset = int(message.offset() or 0) + 1
                    yield partition, message.timestamp()[1], json.loads(message.value() or b"{}")


def positions(kafka: KafkaBroker, topic: str) -> Iterator[tuple[int, Place, list[int]]]:
    """(Partition, transaction, ordinals of the rows) of every message, in the order of its partition."""
    for partition, _, message in messages(kafka, topic):
        pos = message["pos"]
        yield partition, (pos["inc"], pos["file"], pos["tx"]), pos["rows"]


def late_messages(kafka: KafkaBroker, topic: str) -> int:
    """Messages in the topic with rows at or below a coordinate that an earlier one of their partition carries."""
    highest: dict[int, tuple[int, ...]] = {}
    late = 0
    for partition, place, rows in positions(kafka, topic):
        late += (*place, rows[0]) <= highest.get(partition, ())
        highest[partition] = max(highest.get(partition, ()), (*place, rows[-1]))
    return late


def torn_transactions(kafka: KafkaBroker, topic: str) -> int:
    """Transactions of which some publisher sent only a part before another one sent the whole."""
    sent: dict[Place, Counter[int]] = defaultdict(Counter)
    for _, place, rows in positions(kafka, topic):
        sent[place].update(rows)
    return sum(len(set(times.values())) > 1 for times in sent.values())
