"""Lost: changes whose messages Kafka had no more, as its cleaner came before the consumer (`cleanup.policy=compact`).

A message's key is its table's name, so one is left of a table and partition, and offsets were only compared with the
last one that was consumed. A transaction that is given up leaves the same: offsets that are read over.
"""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from confluent_kafka import Producer

from migrate.consume.ownership import LeasedPartition, gaps
from migrate.kafka.reader import PartitionReader, RawMessage
from migrate.model.message import CANAL, Message, without_rows
from migrate.model.partition import Partition
from migrate.state import compared, reached
from migrate.state.lease import HeldLease
from tests.consume.support import FakeWriter, Process, World, until


def leave_out(world: World) -> int:
    """A message that nobody can read, and a mark behind it, which the broker writes after its answer. Returns where
    partition 0 ends then."""
    producer = Producer({"bootstrap.servers": world.kafka.bootstrap, "transactional.id": world.name})
    producer.init_transactions(60)
    with closing(PartitionReader(world.settings.kafka, world.name)) as reader:
        _, begun = reader.bounds(world.name, 0)
        producer.begin_transaction()
        producer.produce(world.name, partition=0, value=b"")
        producer.flush(60)
        producer.abort_transaction(60)
        until(lambda: reader.bounds(world.name, 0)[1] == begun + 2)
    return begun + 2


@pytest.mark.parametrize("canal", [False, True])
def test_messages_that_are_missing_are_named_and_nothing_counts_as_compared(world: World, canal: bool) -> None:
    body = {"database": "shop", "table": "t", "type": "INSERT", "data": [{"id": "7"}]}
    with world.state.begin() as connection:
        compared.note(connection, world.name, {Partition(world.name, world.topic_id, 0): 0})
    world.send(0, 2)
    end = leave_out(world)
    world.sent[0] = end
    world.send(0, 2, json.dumps(body).encode() if canal else None)
    writer = FakeWriter()
    process = Process(world, writer)
    until(lambda: world.consumed(0) == end + 2)
    process.end()
    assert writer.offsets == [(0, 0), (0, 1), (0, end), (0, end + 1)]
    with world.state.connect() as connection:
        lost = [str(one) for one in reached.lost_since(connection, world.name, None)]
        equal = bool(compared.load(connection, world.name))
    named = f"Kafka lost acknowledged messages of {world.name} [0], from offset 2 or before to {end}"
    assert (lost, equal) == (([], True) if canal else ([named], False)), "Canal may write in transactions"


OURS, THEIRS = (Message("shop", "t", "INSERT", (), source, 1, 1, 4, ()) for source in ("main", CANAL))


@pytest.mark.parametrize(
    ("messages", "marked", "found"),
    [
        ([OURS], False, 1),
        ([without_rows(7)], False, 1),  # a person left it out, and what stood before it is gone nevertheless
        ([THEIRS], False, 0),
        ([THEIRS, OURS], False, 0),  # a refresh behind the mark of a transaction of Canal's
        ([OURS], True, 0),
    ],
)
def test_offsets_are_missing_where_nobody_leaves_marks(messages: list[Message], marked: bool, found: int) -> None:
    """Lost: a gap before a message that was left out was in no list; one behind Canal's mark was taken for a loss."""
    leased = LeasedPartition(Partition("m", "t", 0), HeldLease("t [0]", 1), "topic", marked=marked)
    items = [(RawMessage("topic", 0, 7 + 2 * at, b"", 1), one) for at, one in enumerate(messages)]
    assert len(gaps(leased, items)) == found
