"""What gathers before Kafka, when it goes, and what counts as confirmed; with a real broker."""

from __future__ import annotations

import os
import threading

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from migrate.kafka import admin
from migrate.kafka.producer import DeliveryFailed, OrderedProducer
from migrate.publish import batches
from migrate.publish.batches import Batches, Boundary
from migrate.publish.outbox import Outbox
from migrate.settings import Publish, Settings
from migrate.state.position import Position
from sandbox.broker import KafkaBroker
from tests.failover.support import frozen, wait
from tests.helpers import make_settings, unique

START = Position("s", "a:1", 1, "", 1, 1, "b.000001", 4)


class Line:
    """An outbox of a publisher that was just started, and the topic behind it."""

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.topic
        self.batches = Batches(START)
        self.producer = OrderedProducer(settings.kafka)
        self.outbox = Outbox(self.batches, self.producer, settings.publish)

    def rows(self, *values: tuple[int, bytes]) -> None:
        self.outbox.add(self.topic, b"key", values, len(values))

    def end(self, pos: int) -> None:
        self.outbox.end(Boundary(START.file, pos))

    def handed_over(self) -> list[list[int]]:
        """The ends of the transactions in each batch on its way."""
        return [[end.pos for end in batch.ends] for batch in self.batches.outstanding]

    def confirmed(self) -> int:
        """The acknowledged position, once the broker has everything."""
        assert self.producer.flush(60)
        assert self.batches.outstanding == []
        return self.batches.acknowledged.pos


@pytest.fixture
def kafka_settings(kafka: KafkaBroker) -> Settings:
    topic = unique("outbox")
    publish = {"transaction_rows": 4, "batch_rows": 6}
    settings = make_settings(
        kafka={"bootstrap": kafka.bootstrap, "topic": topic, "partitions": 3, "max_message_bytes": 200_000},
        publish=publish,
    )
    made = NewTopic(topic, 3, 1, config={"max.message.bytes": "100000"})  # less than the settings believe
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.create_topics([made])[topic].result()
    admin.require(settings.kafka, topic, admin.NEW)
    return settings


@pytest.fixture
def line(kafka_settings: Settings) -> Line:
    return Line(kafka_settings)


def values(settings: Settings, partition: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": settings.kafka.bootstrap, "group.id": "outbox"})
    try:
        place = TopicPartition(settings.topic, partition, 0)
        end = consumer.get_watermark_offsets(place, timeout=60)[1]
        consumer.assign([place])
        found = consumer.consume(end, 60) if end else []
        return [message.value() or b"" for message in found]
    finally:
        consumer.close()


def test_transactions_that_were_read_at_once_go_together_when_the_source_is_waited_for(
    line: Line, kafka_settings: Settings
) -> None:
    line.rows((0, b"a"), (1, b"b"))
    line.end(100)
    line.end(150)  # nothing of ours was in it
    line.rows((0, b"c"))
    line.end(200)
    assert line.handed_over() == []
    line.outbox.pause()
    assert line.handed_over() == [[100, 150, 200]]
    line.outbox.pause()
    assert len(line.handed_over()) == 1
    assert line.confirmed() == 200
    assert [values(kafka_settings, partition) for partition in range(3)] == [[b"a", b"c"], [b"b"], []]


def test_a_transaction_that_is_still_being_read_holds_the_others_back(line: Line) -> None:
    line.rows((0, b"a"))
    line.end(100)
    line.rows((0, b"b"))
    line.outbox.pause()
    assert line.handed_over() == []
    line.end(200)
    line.outbox.pause()
    assert line.handed_over() == [[100, 200]]
    assert line.confirmed() == 200


def test_a_piece_of_a_transaction_that_the_broker_has_leaves_something_open(line: Line) -> None:
    assert line.outbox.is_settled
    line.rows((0, b"1"), (0, b"2"), (0, b"3"), (0, b"4"), (0, b"5"))
    assert line.confirmed() == START.pos
    assert not line.outbox.is_settled, "the position is before it"
    line.rows((0, b"6"))
    line.end(100)
    line.outbox.pause()
    assert not line.outbox.is_settled, "it is on its way"
    assert line.confirmed() == 100
    assert line.outbox.is_settled


def test_enough_whole_transactions_go_without_a_pause(line: Line) -> None:
    for number in range(1, 4):
        line.rows((0, b"a"), (1, b"b"), (2, b"c"))
        line.end(100 * number)
    assert line.handed_over() == [[100, 200]]  # six rows; the third transaction waits


def test_a_large_transaction_goes_in_pieces_and_counts_when_its_end_is_there(
    line: Line, kafka_settings: Settings
) -> None:
    line.rows((0, b"before"))
    line.end(100)
    line.rows((0, b"1"), (0, b"2"))
    line.rows((0, b"3"), (0, b"4"))
    assert line.handed_over() == []  # `transaction_rows` of them are not too many
    line.rows((0, b"5"))
    assert line.handed_over() == [[100]]
    assert line.confirmed() == 100
    line.rows((0, b"6"))
    line.end(200)
    line.outbox.pause()
    assert line.confirmed() == 200
    assert values(kafka_settings, 0) == [b"before", b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_small_transaction_behind_many_bytes_of_others_is_not_split(line: Line) -> None:
    most = Publish().outstanding_bytes // 4
    for number in range(1, 3):
        line.rows((0, bytes(100_000)))
        line.end(100 * number)
    line.outbox._bytes = line.outbox._whole_bytes = most - 1  # as of many more
    line.rows((0, b"a"))
    assert line.handed_over() == []
    line.rows((0, b"b"))
    line.end(300)
    assert line.handed_over() == [[100, 200, 300]]


def test_transactions_without_rows_wait_once_very_many_are_behind_one_that_is_not_confirmed(
    line: Line, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they take of memory is bounded, though they have no bytes."""
    monkeypatch.setattr(batches, "_MOST_PLACES", 50)

    def read() -> None:
        for pos in range(2, 101):
            line.end(pos)
            line.outbox.pause()

    with frozen(kafka.pid):
        line.rows((0, b"a"))
        line.end(1)
        line.outbox.pause()
        reader = threading.Thread(target=read)
        reader.start()
        wait(lambda: line.batches.crowded, "so many places")
        assert reader.is_alive()
        assert len(line.batches.outstanding) < 50
    reader.join(60)
    assert not reader.is_alive()
    assert line.confirmed() == 100


def test_a_message_above_the_bytes_that_may_be_on_their_way_goes_by_itself(kafka: KafkaBroker) -> None:
    topic = unique("outbox")
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap, "topic": topic, "max_message_bytes": 4 * 1024 * 1024})
    admin.create_topic(settings.kafka, topic, 1)
    producer = OrderedProducer(settings.kafka, queue_bytes=1024 * 1024)
    value = os.urandom(2 * 1024 * 1024)
    producer.send(topic, [(0, b"", value)])
    assert producer.flush(60)
    assert values(settings, 0) == [value]


@pytest.mark.parametrize("large", [0, 1, 2])
def test_a_batch_of_which_the_broker_refuses_one_message_is_never_acknowledged(line: Line, large: int) -> None:
    """Whichever of its partition's messages it is; only the last one's confirmation is waited for."""
    line.rows((0, b"first"))
    line.end(100)
    line.outbox.pause()
    assert line.confirmed() == 100
    line.rows(*((0, os.urandom(150_000 if number == large else 10)) for number in range(3)))
    line.end(200)
    line.outbox.pause()
    with pytest.raises(DeliveryFailed):
        line.producer.flush(60)
    assert line.batches.acknowledged.pos == 100
    with pytest.raises(DeliveryFailed):
        line.rows(*[(1, b"later")] * 5)
    with pytest.raises(DeliveryFailed):
        line.producer.poll()
    assert line.batches.acknowledged.pos == 100


def test_a_rolled_back_part_of_a_transaction_is_taken_back(line: Line, kafka_settings: Settings) -> None:
    line.rows((0, b"earlier"))
    line.end(50)
    line.outbox.mark("")
    line.rows((0, b"a"), (1, b"b"))
    line.outbox.mark("s")
    line.rows((1, b"gone"))
    assert line.outbox.undo("s")
    assert not line.outbox.undo("another")
    line.end(100)
    line.outbox.mark("")
    line.rows((2, b"gone"))
    assert line.outbox.undo("")
    line.end(200)
    line.outbox.flush()
    assert line.confirmed() == 200
    found = [values(kafka_settings, number) for number in range(3)]
    assert found == [[b"earlier", b"a"], [b"b"], []]


def test_a_part_that_was_handed_over_is_not_taken_back(line: Line) -> None:
    line.outbox.mark("")
    line.rows(*[(0, b"x")] * 5)
    line.outbox.mark("s")
    line.rows((0, b"y"))
    assert not line.outbox.undo("")
    assert line.outbox.undo("s")


@pytest.mark.parametrize("back_to", ["", "s"])
def test_what_is_rolled_back_behind_a_pause_is_taken_back_too(
    line: Line, kafka_settings: Settings, back_to: str
) -> None:
    """Lost: a rollback, where all before it had been taken back and earlier transactions went to Kafka meanwhile."""
    line.rows((0, b"a"), (0, b"b"))
    line.end(100)
    line.outbox.begin(whole=False)
    line.outbox.mark("s")
    line.rows((0, b"gone"))
    assert line.outbox.undo(back_to)
    line.outbox.pause()
    assert line.handed_over() == [[100]]
    line.rows((0, b"gone too"))
    assert line.outbox.undo(back_to)
    line.rows((0, b"c"))
    line.end(200)
    line.outbox.flush()
    assert line.confirmed() == 200
    assert values(kafka_settings, 0) == [b"a", b"b", b"c"]
