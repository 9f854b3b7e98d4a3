"""A topic that gets partitions, loses messages or brings old ones again while it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.failover.topic import messages
from tests.forked import Child
from tests.helpers import unique

pytestmark = pytest.mark.long

_CLEANUP = "commit: {cleanup_interval_seconds: 0.5, cleanup_age_seconds: 0.1, "


class World:
    def __init__(self, flow: Flow, kafka: KafkaBroker) -> None:
        self.flow, self.kafka = flow, kafka
        self.topic = f"migrate.{flow.name}"
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        config = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(config.replace("commit: {", _CLEANUP), "utf-8")
        flow.migration.do("init")
        self.publisher = self.publish()
        wait(flow.position, "the publisher to begin")
        flow.child("commit", "commit")
        flow.close_copy()  # so that no delete is delayed
        self.consumer = self.consume()
        self.sql("INSERT INTO orders VALUES (900, 900, 0, 'first'), (901, 901, 0, 'first')")
        self.equal()
        wait(lambda: records(self) == 0, "all processes to be under way")

    def publish(self) -> Child:
        return self.flow.child("publish", "publish", "--source", "main")

    def consume(self) -> Child:
        return self.flow.child("consume", "consume")

    def sql(self, *statements: str) -> None:
        self.flow.box.source.execute(*statements, database=self.flow.database)

    def equal(self) -> None:
        self.flow.drain()
        assert self.flow.differences(self.flow.box.source) == []

    def stopped(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.flow.migration.ask("status")["halted"]
        return found

    def raw(self) -> list[tuple[int, int, bytes]]:
        """(Partition, offset, value) of every message."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": "again", "enable.auto.commit": False}
        )
        found = []
        with closing(consumer):
            for number in consumer.list_topics(self.topic, timeout=SLOW).topics[self.topic].partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=SLOW)
                consumer.assign([TopicPartition(self.topic, number, low)])
                offset = low
                while offset < high:
                    for message in consumer.consume(500, 1.0):
                        assert message.error() is None
                        found.append((number, int(message.offset() or 0), message.value() or b""))
                        offset = found[-1][1] + 1
        return found

    def goes_beyond(self, partition: int, offset: int) -> bool:
        return self.end(partition) > offset

    def end(self, partition: int) -> int:
        """One past the last offset."""
        return max((offset + 1 for number, offset, _ in self.raw() if number == partition), default=0)

    def delete_before(self, partition: int, offset: int) -> None:
        """As retention does."""
        self.admin.delete_records([TopicPartition(self.topic, partition, offset)])[
            TopicPartition(self.topic, partition, offset)
        ].result(SLOW)


@pytest.fixture
def world(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[World]:
    with closing(Flow(box, kafka, tmp_path, unique("topic"), box.source, lease=30)) as flow:
        yield World(flow, kafka)


def test_partitions_added_by_hand_take_no_key_from_its_order_and_are_refused_at_the_next_start(world: World) -> None:
    flow = world.flow
    writer = flow.writer(lambda: flow.box.source.connect(flow.database), 1)
    writer.wait_for(100)
    world.admin.create_partitions([NewPartitions(world.topic, 5)])[world.topic].result(SLOW)
    writer.wait_for(300)
    writer.stop()
    world.equal()
    assert writer.lost(flow.source_rows(flow.box.source)) == []
    assert {number for number, _, _ in messages(world.kafka, world.topic)} == {0, 1}
    for child, again in ((world.publisher, world.publish), (world.consumer, world.consume)):
        child.stop()
        started = again()
        assert started.wait(SLOW)
        log = started.log.read_text("utf-8")
        assert f"topic {world.topic} has 5 partitions, the migration began with 2" in log
        assert "migrate repartition 5" in log


def test_messages_that_are_deleted_before_they_were_read_stop_their_partition_for_good(world: World) -> None:
    """While the consumer reads, and when it starts: the offset is never reset."""
    rows = ", ".join(f"({key}, {key}, {key}, 'first')" for key in range(1, 21))
    world.sql(f"INSERT INTO orders VALUES {rows}")
    world.equal()
    sent = [message["data"] for number, _, message in messages(world.kafka, world.topic) if number == 0]
    hit = sorted(int(row["id"]) for data in sent for row in data or ())
    with frozen(world.consumer.pid):
        for value in (1, 2):  # a fetch that is under way can bring what comes first
            before = world.end(0)
            world.sql(f"UPDATE orders SET value = {-value}")
            wait(partial(world.goes_beyond, 0, before), "it to be published")
        world.delete_before(0, world.end(0))
    (one,) = wait(world.stopped, "the partition to be stopped")
    assert one["process"] == f"consume: {world.topic} [0]"
    assert f"{world.topic} [0]" in one["reason"]
    assert "raise kafka.retention_hours" in one["hint"]
    drain = world.flow.child("drain", "drain", "--timeout", "60")
    assert drain.wait(SLOW)
    assert drain.returncode == 5
    world.consumer.kill()
    world.consumer = world.consume()
    world.sql("UPDATE orders SET value = 77 WHERE id < 11")
    wait(lambda: "a partition is stopped" in world.consumer.log.read_text("utf-8"), "it to be stopped again")
    wait(lambda: different(world) == hit, "the other partition to go on, and this one to show what it lacks")


def different(world: World) -> list[int]:
    """Keys of rows that are at the target, and not as at the source."""
    found = world.flow.differences(world.flow.box.source)
    return sorted(int(line.removeprefix("different ").partition(":")[0]) for line in found)


def test_an_event_that_comes_again_after_its_record_was_cleaned_up_takes_no_row_back(world: World) -> None:
    """A B A B C, with a consumer that knows nothing but its state."""
    world.sql("DELETE FROM orders")
    for value in range(6):
        change = "INSERT INTO orders VALUES (1, 0, 0, 'a'), (2, 1, 0, 'a')" if not value else "DO 0"
        world.sql(change, f"UPDATE orders SET value = {value}, user_id = user_id + 1")
    world.sql("DELETE FROM orders WHERE id = 2")
    world.equal()
    old = [one for one in world.raw() if {row["value"] for row in json.loads(one[2])["data"] or ()} <= {"1", "2"}]
    assert len(old) >= 4, "what is older than what the target has"
    wait(lambda: records(world) == 0, "the records to be cleaned up")
    world.consumer.kill()
    world.consumer = world.consume()
    again(world, [*old, *old])
    world.equal()
    world.sql("UPDATE orders SET value = 99", "INSERT INTO orders VALUES (2, 0, 0, 'again')")
    again(world, old)
    world.equal()
    assert [row[2] for row in world.flow.source_rows(world.flow.box.source).values()] == [99, 0]


def records(world: World) -> int:
    state = world.flow.box.targets[0]
    return int(state.query("SELECT COUNT(*) FROM record", database=f"{world.flow.name}_state")[0][0])


def again(world: World, old: list[tuple[int, int, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": world.kafka.bootstrap})
    failed: list[Any] = []
    for number, _, value in old:
        producer.produce(world.topic, value, partition=number, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(SLOW) == 0
    assert failed == [None] * len(old)
