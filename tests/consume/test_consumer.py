"""The consumer on a real broker and a real state: what is recorded when, what is read again, what is stopped."""

from __future__ import annotations

from contextlib import closing

import pytest
import sqlalchemy as sa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from migrate.consume.assignment import share
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.settings import State
from migrate.state import database, lease, record
from migrate.state import migration as migrations
from migrate.state.lease import Leases
from migrate.state.record import Partition
from migrate.target.roles import SwitchedSince
from sandbox.broker import KafkaBroker
from tests.consume.support import PARTITIONS, FakeWriter, Process, World, until


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


def test_a_partition_whose_merge_failed_stands_still_alone_and_is_read_again_from_its_first_new_record(
    world: World,
) -> None:
    writer = FakeWriter()
    process = Process(world, writer)
    world.send(0, 4)
    until(lambda: world.consumed(0) == 4)
    writer.failing = {0: StopError("refused", hint="mend it")}
    world.send(0, 3)
    until(lambda: world.halted() == {0: "refused"})
    world.send(1, 5)
    until(lambda: world.consumed(1) == 5)
    assert (world.states(0), world.consumed(0)) == ([3, 4, 0], 4)
    before = len(writer.offsets)
    writer.failing = {}
    until(lambda: world.consumed(0) == 7)
    assert [one for one in writer.offsets[before:] if one[0] == 0][-3:] == [(0, 4), (0, 5), (0, 6)]
    until(lambda: world.halted() == {})
    process.end()
    assert [(epoch, mark) for number, epoch, mark in writer.taken if number == 0][-1] == (
        1,
        {"s": Coordinate(1, 1, 3, 0)},
    )


def test_a_row_that_was_read_before_a_switch_is_read_again_and_holds_no_cutover_back(world: World) -> None:
    """A rollback left a partition stopped for seconds, and the cutover behind it was refused."""
    writer = FakeWriter(failing={0: SwitchedSince("target 't0'")})
    process = Process(world, writer)
    world.send(0, 3)
    until(lambda: len(writer.merged) >= 3, "it to be read again")
    assert world.halted() == {}
    writer.failing = {}
    until(lambda: world.consumed(0) == 3)
    process.end()


def test_what_was_marked_consumed_by_hand_is_counted_and_not_applied(world: World) -> None:
    world.send(0, 3)
    process = Process(world, FakeWriter(failing={0: StopError("refused")}))
    until(lambda: world.halted() == {0: "refused"})
    process.end()
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
    assert world.halted() == {}


def test_a_message_that_is_none_stops_the_reading_there_and_what_stands_before_it_is_applied(world: World) -> None:
    world.send(1, 2)
    world.send(1, 1, raw=b"not json")
    world.send(1, 1)
    world.send(0, 3)
    process = Process(world, FakeWriter())
    until(lambda: (world.consumed(0), world.consumed(1)) == (3, 2))
    until(lambda: 1 in world.halted())
    assert world.halted()[1].startswith(f"message {world.name} [1] @ 2 is not a flat message")
    assert world.states(1) == [0, 2, 0]
    world.send(0, 1)
    until(lambda: world.consumed(0) == 4)
    process.end()
    assert world.halted().keys() == {1}


def test_a_message_whose_reason_to_stop_is_longer_than_the_state_takes_stops_its_partition_alone(world: World) -> None:
    """Every consumer ended in a loop of restarts. Costs 1 s."""
    refused = FakeWriter(failing={1: StopError("é" * 70_000, hint="é" * 70_000)})
    world.send(1, 1)
    world.send(0, 1)
    process = Process(world, refused)
    until(lambda: world.consumed(0) == 1 and 1 in world.halted())
    process.end()
    assert world.halted()[1] == "é" * 15_000


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
    """An offset is never reset silently."""
    world.send(0, 5)
    client = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    (future,) = client.delete_records([TopicPartition(world.name, 0, 3)]).values()
    future.result(20)
    process = Process(world, FakeWriter())
    world.send(1, 2)
    until(lambda: world.consumed(1) == 2)
    assert world.halted() == {0: f"{world.name} [0]: the next offset to read is 0, but the broker has 3 to 5"}
    assert world.consumed(0) is None
    process.end()


def owners(world: World) -> dict[int, str]:
    """Who holds each partition's lease now."""
    with world.state.connect() as connection:
        rows = connection.execute(
            sa.select(lease.table.c.name, lease.table.c.holder).where(
                lease.table.c.migration == world.name,
                lease.table.c.name.startswith("partition:"),
                lease.table.c.expires > database.now,
            )
        )
        return {int(name.rpartition(":")[2]): holder for name, holder in rows}


def test_a_consumer_that_joins_gets_its_share_and_the_rest_when_the_other_ends(world: World) -> None:
    one, two = FakeWriter(), FakeWriter()
    first = Process(world, one)
    until(lambda: len(owners(world)) == PARTITIONS)
    second = Process(world, two)
    until(lambda: set(owners(world).values()) == {first.leases.holder, second.leases.holder})
    for partition in range(PARTITIONS):
        world.send(partition, 2)
    until(lambda: (world.consumed(0), world.consumed(1)) == (2, 2))
    assert {number for number, _ in one.offsets} | {number for number, _ in two.offsets} == {0, 1}
    assert sorted([*one.offsets, *two.offsets]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first.end()
    until(lambda: set(owners(world).values()) == {second.leases.holder})
    for partition in range(PARTITIONS):
        world.send(partition, 1)
    until(lambda: (world.consumed(0), world.consumed(1)) == (3, 3))
    second.end()
    assert sorted(two.offsets)[-1] == (1, 2)


def test_a_state_server_that_gives_no_lease_for_a_while_ends_no_consumer(
    kafka: KafkaBroker, state_settings: State, state: sa.Engine
) -> None:
    impatient = database.engine(state_settings)
    sa.event.listen(impatient, "connect", lambda raw, _: raw.query("SET SESSION innodb_lock_wait_timeout = 1"))
    world = World(kafka, state_settings, impatient)
    world.send(0, 3)
    with closing(Leases(state, world.name, 60.0)) as before:
        for number in range(PARTITIONS):
            before.acquire(Partition(world.name, world.topic_id, number).lease)
    with capture_logs() as logs:
        with state.begin() as holding:
            mine = sa.select(lease.table.c.name).where(lease.table.c.migration == world.name)
            assert len(holding.execute(mine.with_for_update()).all()) == PARTITIONS
            process = Process(world, FakeWriter())
            until(lambda: any("not shared out" in entry["event"] for entry in logs))
        until(lambda: world.consumed(0) == 3)
    process.end()
    impatient.dispose()


def test_a_partition_is_handed_over_behind_the_batch_that_is_under_way(world: World) -> None:
    one, two = FakeWriter(), FakeWriter()
    first = Process(world, one)
    until(lambda: len(owners(world)) == PARTITIONS)
    one.gate.clear()
    for partition in range(PARTITIONS):
        world.send(partition, 2)
    until(lambda: bool(one.merged))
    second = Process(world, two)
    with closing(Leases(world.state, world.name, 30.0)) as any_one:
        until(lambda: len(any_one.unexpired("member:")) == 2)
    assert set(owners(world).values()) == {first.leases.holder}
    one.gate.set()
    until(lambda: set(owners(world).values()) == {first.leases.holder, second.leases.holder})
    until(lambda: (world.consumed(0), world.consumed(1)) == (2, 2))
    first.end()
    second.end()
    assert len({*one.offsets, *two.offsets}) == len(one.offsets) + len(two.offsets) == 4


def test_a_consumer_whose_lease_was_taken_marks_nothing_of_it_and_goes_on_with_the_others(world: World) -> None:
    world.send(0, 2)
    world.send(1, 1)
    writer = FakeWriter()
    writer.gate.clear()
    process = Process(world, writer)
    until(lambda: bool(writer.merged))
    taken = lease.table.c.name == f"partition:{world.topic_id}:0"
    with world.state.begin() as connection:
        connection.execute(
            sa.update(lease.table)
            .where(lease.table.c.migration == world.name, taken)
            .values(epoch=9, holder="another", expires=sa.text("NOW(6) + INTERVAL 1 DAY"))
        )
    writer.gate.set()
    until(lambda: world.consumed(1) == 1)
    world.send(1, 1)
    until(lambda: world.consumed(1) == 2)
    process.end()
    assert world.states(0)[1:] == [0, 0]
    assert world.consumed(0) is None
    assert 0 in writer.dropped


def test_a_consumer_whose_lease_was_taken_notes_no_stop_that_its_next_owner_would_not_clear(world: World) -> None:
    world.send(0, 2)
    writer = FakeWriter(failing={0: StopError("refused")})
    writer.gate.clear()
    process = Process(world, writer)
    until(lambda: bool(writer.merged))
    taken = lease.table.c.name == f"partition:{world.topic_id}:0"
    with world.state.begin() as connection:
        connection.execute(
            sa.update(lease.table)
            .where(lease.table.c.migration == world.name, taken)
            .values(epoch=9, holder="another", expires=sa.text("NOW(6) + INTERVAL 1 DAY"))
        )
    writer.gate.set()
    until(lambda: 0 in writer.dropped)
    process.end()
    assert world.halted() == {}


@pytest.mark.parametrize(
    ("partitions", "members", "shares"),
    [
        (8, "a", [8]),
        (8, "ab", [4, 4]),
        (8, "abc", [3, 3, 2]),
        (2, "abc", [1, 1, 0]),
    ],
)
def test_shares_are_fair_and_leave_nothing_over(partitions: int, members: str, shares: list[int]) -> None:
    assert [share(partitions, list(members), me) for me in members] == shares


def test_one_that_is_not_seen_yet_counts_itself() -> None:
    assert share(4, ["b"], "a") == 2
