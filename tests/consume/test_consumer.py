"""The consumer on a real broker and a real state: what is recorded when, what is read again, what stops it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from migrate.consume.consumer import Consumer
from migrate.kafka import admin
from migrate.model.coordinate import Coordinate
from migrate.model.errors import MigrateError, OwnershipLost, StopError
from migrate.model.message import Message, Received, encode
from migrate.settings import Settings, State
from migrate.state import database, lease, record
from migrate.state import migration as migrations
from migrate.state.lease import Leases
from migrate.state.migration import Migration, Topic
from migrate.state.record import Consumed, Partition
from migrate.target.part import Done
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, unique

PARTITIONS = 2


@dataclass
class FakeWriter:
    """In place of the merger: keeps what it is given. `gate` holds a merge up, `failure` ends it."""

    taken: list[tuple[int, int, Mapping[str, Coordinate]]] = field(default_factory=list)
    merged: list[list[Received]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    failure: MigrateError | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    def take(self, partition: Partition, epoch: int, watermark: dict[str, Coordinate]) -> None:
        self.taken.append((partition.number, epoch, watermark))

    def drop(self, partition: Partition) -> None:
        raise AssertionError("partitions are never dropped")

    def merge(self, batch: Sequence[Received]) -> tuple[list[Consumed], Done]:
        self.merged.append(list(batch))
        self.gate.wait(30)
        if self.failure is not None:
            raise self.failure
        done = []
        for partition in sorted({item.partition for item in batch}, key=lambda each: each.number):
            mine = [item for item in batch if item.partition == partition]
            highest = {"s": mine[-1].message.coordinate}
            done.append(Consumed(partition, mine[-1].offset + 1, highest, len(mine), len(mine), 0))
        return done, Done()

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return [(item.partition.number, item.offset) for batch in self.merged for item in batch]


class World:
    """A migration with a topic of its own."""

    def __init__(self, kafka: KafkaBroker, state_settings: State, state: sa.Engine) -> None:
        self.name = unique("consumer")
        self.kafka = kafka
        self.state = state
        self.state_settings = state_settings
        self.settings = self.make()
        admin.create_topic(self.settings.kafka, self.name, PARTITIONS)
        found = admin.require(self.settings.kafka, self.name)
        with state.begin() as connection:
            migrations.create(connection, Migration(self.name, (Topic(self.name, found.id, PARTITIONS),)), "")
        self.topic_id = found.id
        self.sent = [0] * PARTITIONS

    def make(self, **consume: object) -> Settings:
        quick = {"merge_interval_seconds": 0.05, "idle_seconds": 0.1, **consume}
        kafka = {"bootstrap": self.kafka.bootstrap, "topic": self.name, "group": self.name}
        return make_settings(name=self.name, kafka=kafka, consume=quick)

    def send(self, partition: int, count: int, raw: bytes | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for _ in range(count):
            number = self.sent[partition]
            message = Message("shop", "t", "INSERT", ({"id": str(number)},), "s", 1, 1, number, (0,))
            producer.produce(self.name, partition=partition, value=encode(message) if raw is None else raw)
            self.sent[partition] += 1
        assert producer.flush(20) == 0

    def states(self, partition: int) -> list[int]:
        """How many records are new, consumed, committed."""
        with self.state.connect() as connection:
            rows = connection.execute(
                sa.select(record.table.c.state).where(
                    record.table.c.topic_id == self.topic_id, record.table.c.partition_no == partition
                )
            )
            found = [row[0] for row in rows]
        return [found.count(number) for number in (0, 1, 2)]

    def consumed(self, partition: int) -> int | None:
        with self.state.connect() as connection:
            return record.next_offset(connection, Partition(self.name, self.topic_id, partition))


class Process:
    """A consumer running in a thread."""

    def __init__(self, world: World, writer: FakeWriter, **consume: object) -> None:
        self.stop = threading.Event()
        self.leases = Leases(world.state, world.name, 30.0)
        self.consumer = Consumer(world.make(**consume), world.state, self.leases, writer, self.stop)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.consumer.run()
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        self.leases.close()

    def failed(self) -> BaseException:
        self.thread.join(30)
        assert self.failure is not None
        self.leases.close()
        return self.failure


def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def state_settings(mariadb_box: Sandbox) -> State:
    settings = State(**address(mariadb_box.targets[0]), database=unique("state"))
    database.create(settings)
    return settings


@pytest.fixture(scope="module")
def state(state_settings: State) -> Iterator[sa.Engine]:
    engine = database.engine(state_settings)
    yield engine
    engine.dispose()


@pytest.fixture
def world(kafka: KafkaBroker, state_settings: State, state: sa.Engine) -> World:
    return World(kafka, state_settings, state)


def test_every_message_is_merged_once_in_order_and_its_record_consumed(world: World) -> None:
    world.send(0, 30)
    world.send(1, 7)
    writer = FakeWriter()
    process = Process(world, writer, poll_messages=10)
    until(lambda: (world.consumed(0), world.consumed(1)) == (30, 7))
    world.send(0, 3)
    until(lambda: world.consumed(0) == 33)
    process.end()
    for partition, count in ((0, 33), (1, 7)):
        assert [offset for number, offset in writer.offsets if number == partition] == list(range(count))
        assert world.states(partition) == [0, count, 0]
    assert process.failure is None
    assert sorted(writer.taken) == [(0, 1, {}), (1, 1, {})]


def test_a_record_stands_before_its_message_is_merged(world: World) -> None:
    world.send(0, 5)
    writer = FakeWriter()
    writer.gate.clear()
    process = Process(world, writer)
    until(lambda: bool(writer.merged))
    assert world.states(0) == [5, 0, 0]
    assert world.consumed(0) is None
    writer.gate.set()
    until(lambda: world.states(0) == [0, 5, 0])
    process.end()


def test_after_a_failed_merge_everything_from_the_first_new_record_is_read_again(world: World) -> None:
    world.send(0, 4)
    first = Process(world, FakeWriter())
    until(lambda: world.consumed(0) == 4)
    first.end()
    world.send(0, 3)
    failed = Process(world, FakeWriter(failure=StopError("refused")))
    assert str(failed.failed()) == "refused"
    assert world.states(0) == [3, 4, 0]
    writer = FakeWriter()
    again = Process(world, writer)
    until(lambda: world.consumed(0) == 7)
    again.end()
    assert [offset for _, offset in writer.offsets] == [4, 5, 6]
    assert all(item.apply for batch in writer.merged for item in batch)
    assert [(epoch, mark) for number, epoch, mark in writer.taken if number == 0] == [
        (3, {"s": Coordinate(1, 1, 3, 0)})
    ]


def test_what_was_marked_consumed_by_hand_is_counted_and_not_applied(world: World) -> None:
    world.send(0, 3)
    assert isinstance(Process(world, FakeWriter(failure=StopError("refused"))).failed(), StopError)
    with world.state.begin() as connection:
        connection.execute(
            sa.update(record.table)
            .where(record.table.c.topic_id == world.topic_id, record.table.c.message_offset == 1)
            .values(state=1)
        )
    writer = FakeWriter()
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 3)
    process.end()
    assert [(item.offset, item.apply) for batch in writer.merged for item in batch] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_a_message_that_is_none_stops_and_is_named_and_nothing_of_its_poll_is_recorded(world: World) -> None:
    world.send(1, 2)
    world.send(1, 1, raw=b"not json")
    world.send(1, 1)
    process = Process(world, FakeWriter())
    failure = process.failed()
    assert isinstance(failure, StopError)
    assert failure.message.startswith(f"message {world.name} [1] @ 2 is not a flat message")
    assert world.states(1)[0] + world.states(1)[1] in (0, 2)
    assert world.consumed(1) in (None, 2)


def test_a_full_queue_is_merged_at_once_and_holds_back_the_reading(world: World) -> None:
    world.send(0, 400)
    writer = FakeWriter()
    writer.gate.clear()
    process = Process(world, writer, merge_interval_seconds=600, queue_bytes=20_000, poll_messages=50)
    until(lambda: bool(writer.merged))
    until(lambda: process.consumer._queue.full)
    waiting = sum(world.states(0))
    assert waiting < 400
    writer.gate.set()
    with world.state.begin() as connection:
        migrations.ask_drain(connection, world.name)

    def drained() -> bool:
        with world.state.begin() as connection:
            migrations.ask_drain(connection, world.name)
        return world.consumed(0) == 400

    until(drained)
    process.end()
    assert [offset for _, offset in writer.offsets] == list(range(400))


def test_a_request_to_drain_is_not_kept_waiting_for_the_interval(world: World) -> None:
    world.send(0, 3)
    writer = FakeWriter()
    process = Process(world, writer, merge_interval_seconds=600)
    until(lambda: world.states(0) == [3, 0, 0])
    assert writer.merged == []
    with world.state.begin() as connection:
        migrations.ask_drain(connection, world.name)
    until(lambda: world.consumed(0) == 3)
    process.end()


def test_messages_that_were_deleted_before_they_were_applied_stop_it(world: World) -> None:
    """FAULTS F16: an offset is never reset silently."""
    world.send(0, 5)
    client = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    (future,) = client.delete_records([TopicPartition(world.name, 0, 3)]).values()
    future.result(20)
    failure = Process(world, FakeWriter()).failed()
    assert isinstance(failure, StopError)
    assert failure.message == f"{world.name} [0]: reading goes on at offset 0, the broker has 3 to 5"
    assert "copy again" in failure.hint


def test_two_consumers_share_the_partitions_and_the_second_takes_over(world: World) -> None:
    one, two = FakeWriter(), FakeWriter()
    first = Process(world, one)
    until(lambda: len(one.taken) == PARTITIONS)
    second = Process(world, two)
    world.send(0, 2)
    until(lambda: world.consumed(0) == 2)
    assert two.taken == []
    first.end()
    until(lambda: len(two.taken) == PARTITIONS)
    world.send(0, 2)
    until(lambda: world.consumed(0) == 4)
    second.end()
    assert [offset for _, offset in two.offsets] == [2, 3]
    assert {epoch for _, epoch, _ in two.taken} == {2}


def test_a_consumer_whose_lease_was_taken_marks_nothing(world: World) -> None:
    world.send(0, 2)
    writer = FakeWriter()
    writer.gate.clear()
    process = Process(world, writer)
    until(lambda: bool(writer.merged))
    with world.state.begin() as connection:
        connection.execute(
            sa.update(lease.table).where(lease.table.c.migration == world.name).values(epoch=9, holder="another")
        )
    writer.gate.set()
    failure = process.failed()
    assert isinstance(failure, OwnershipLost)
    assert world.states(0) == [2, 0, 0]
