"""A Kafka client that has fallen silent while the broker answers others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Producer, TopicPartition

from migrate.kafka import admin, liveness, producer
from migrate.kafka.producer import DeliveryFailed, OrderedProducer
from migrate.kafka.reader import PartitionReader
from migrate.model.errors import ServerError
from migrate.settings import Kafka
from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from tests.helpers import make_settings, unique

_EVERY = 0.3
_WITHIN = 60.0


@pytest.fixture
def settings(kafka: KafkaBroker) -> Kafka:
    return make_settings(kafka={"bootstrap": kafka.bootstrap}).kafka


@pytest.fixture
def topic(settings: Kafka) -> str:
    name = unique("stall")
    admin.create_topic(settings, name, 2)
    return name


@pytest.fixture
def reader(settings: Kafka, topic: str) -> Iterator[PartitionReader]:
    with closing(PartitionReader(settings, topic, look_every=_EVERY)) as made:
        made.assign(topic, 0, 0)
        made.assign(topic, 1, 0)
        yield made


def send(settings: Kafka, topic: str, partition: int, **more: str) -> None:
    made = Producer({**admin.client_options(settings), **more})
    if more:
        made.init_transactions(_WITHIN)
        made.begin_transaction()
    made.produce(topic, b"x", partition=partition)
    if more:
        made.commit_transaction(_WITHIN)
    assert made.flush(_WITHIN) == 0


@contextmanager
def written(settings: Kafka, topic: str, partition: int, busy: bool) -> Iterator[None]:
    """Meanwhile, so often that no poll is in vain."""
    over = threading.Event()

    def write() -> None:
        made = Producer(admin.client_options(settings))
        while busy and not over.wait(0.01):
            made.produce(topic, b"x", partition=partition)
            made.poll(0)
        made.flush(_WITHIN)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def read(reader: PartitionReader, seconds: float, upto: int = 10_000, wait: float = 0.1) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and len(found) < upto:
        found += [(raw.partition, raw.offset) for raw in reader.poll(10, wait)]
    return found


def poll(made: OrderedProducer, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        made.poll(0.1)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_partition_that_a_client_no_longer_reads_is_named_though_another_goes_on(
    settings: Kafka, topic: str, reader: PartitionReader, busy: bool
) -> None:
    send(settings, topic, 0)
    assert read(reader, _WITHIN, upto=1) == [(0, 0)]
    reader._consumer.pause([TopicPartition(topic, 0)])  # beside the reader: as if the client had forgotten it
    send(settings, topic, 0)
    send(settings, topic, 1)
    with written(settings, topic, 1, busy), pytest.raises(ServerError, match=rf"of {topic} \[0\] from offset 1 on"):
        read(reader, _WITHIN, wait=5.0 if busy else 0.1)  # the broker takes a tenth of a second now and then


def test_a_partition_that_is_given_up_while_it_is_paused_is_read_when_it_is_taken_again(
    settings: Kafka, topic: str, reader: PartitionReader
) -> None:
    send(settings, topic, 0)
    assert read(reader, _WITHIN, upto=1) == [(0, 0)]
    reader.pause([(topic, 0), (topic, 1)])
    reader.unassign(topic, 0)
    reader.resume([(topic, 1)])
    reader.assign(topic, 0, 0)
    assert read(reader, _WITHIN, upto=1) == [(0, 0)]


def test_what_is_paused_or_read_to_its_end_is_not_silent(settings: Kafka, topic: str, reader: PartitionReader) -> None:
    send(settings, topic, 0)
    send(settings, topic, 1, **{"transactional.id": topic})  # a mark that is no message follows it
    assert sorted(read(reader, _WITHIN, upto=2)) == [(0, 0), (1, 0)]
    reader.pause([(topic, 0)])
    send(settings, topic, 0)
    assert read(reader, 40 * _EVERY) == []
    reader.resume([(topic, 0)])
    assert read(reader, _WITHIN, upto=1) == [(0, 1)]


def test_a_producer_is_alone_where_another_client_reaches_the_broker(settings: Kafka) -> None:
    nobody = settings.model_copy(update={"bootstrap": f"{HOST}:{free_port()}"})
    lost = Producer(admin.client_options(nobody))
    assert liveness.alone(lost, settings)
    assert not liveness.alone(lost, nobody), "the broker is away"
    assert not liveness.alone(Producer(admin.client_options(settings)), settings)


def test_a_producer_that_lost_the_broker_ends_so_that_another_takes_its_place(
    settings: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_ALONE", 0.5)
    made = OrderedProducer(settings)
    lost = settings.model_copy(update={"bootstrap": f"{HOST}:{free_port()}"})
    made._producer = Producer(admin.client_options(lost))
    made.produce(topic, 0, b"x")
    with pytest.raises(DeliveryFailed, match="the client lost the broker"):
        poll(made, _WITHIN)
    made.abandon()
