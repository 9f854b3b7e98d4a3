"""Lost: what a target had committed and came back without, as reading went on behind it (invariant fence-compares)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import sqlalchemy as sa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from migrate.model.coordinate import Coordinate
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.settings import State
from migrate.state import compared, lease, reached, record
from migrate.state.reached import DatabaseName
from migrate.target.reached import Claim, DatabaseBehind, ReachedBefore, StateBehind
from sandbox.broker import KafkaBroker
from tests.consume.support import FakeWriter, Process, World, until

DATABASE = ("t", "shop_0")


@pytest.fixture
def world(kafka: KafkaBroker, state_settings: State, state: sa.Engine) -> World:
    return World(kafka, state_settings, state)


@pytest.fixture
def partition(world: World) -> Partition:
    """Five messages that were consumed, and that a database had."""
    world.send(0, 5)
    process = Process(world, FakeWriter())
    until(lambda: world.consumed(0) == 5)
    process.end()
    found = Partition(world.name, world.topic_id, 0)
    with world.state.begin() as connection:
        reached.note(connection, {found: {DATABASE: 5}})
        compared.note(connection, world.name, {found: 5})
    return found


def lost(world: World) -> list[tuple[int, int, bool]]:
    """(from, to, whether the broker had all) of what was found."""
    with world.state.connect() as connection:
        return [(one.start, one.end, one.healed) for one in reached.lost_since(connection, world.name, None)]


def test_what_a_database_lost_is_applied_again_and_nothing_counts_as_compared(
    world: World, partition: Partition
) -> None:
    """Lost: what a target had committed before it came back with less."""
    writer = FakeWriter(behind={DATABASE: 2})
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 5 and len(writer.offsets) == 3)
    process.end()
    assert writer.offsets == [(0, 2), (0, 3), (0, 4)]
    assert {item.apply for batch in writer.merged for item in batch} == {True}
    assert lost(world) == [(2, 5, True)]
    with world.state.connect() as connection:
        assert compared.load(connection, world.name) == {}


def test_until_then_the_partition_does_not_count_as_consumed(world: World, partition: Partition) -> None:
    """A drain, and a cutover, would believe that everything had arrived."""
    writer = FakeWriter(behind={DATABASE: 2})
    writer.gate.clear()
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 2)
    writer.gate.set()
    until(lambda: world.consumed(0) == 5)
    process.end()


def test_a_write_that_finds_the_loss_begins_the_partition_again_and_does_not_stop_it(
    world: World, partition: Partition
) -> None:
    writer = FakeWriter()
    process = Process(world, writer)
    until(lambda: bool(writer.taken))
    writer.failing[0] = DatabaseBehind(Claim(partition, 1, "h"), "there", 3, 5)
    writer.behind[DATABASE] = 3
    world.send(0, 1)
    until(lambda: bool(lost(world)))
    writer.failing.clear()
    until(lambda: world.consumed(0) == 6)
    process.end()
    assert (lost(world), world.halted()) == ([(3, 5, True)], {})
    assert [one for one in writer.offsets if one[0] == 0][-3:] == [(0, 3), (0, 4), (0, 5)]


def test_what_the_broker_no_longer_has_is_named_and_the_rest_applied(world: World, partition: Partition) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    for done in admin.delete_records([TopicPartition(world.name, 0, 4)]).values():
        done.result()
    writer = FakeWriter(behind={DATABASE: 2})
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 5 and bool(writer.offsets))
    process.end()
    assert (writer.offsets, lost(world)) == ([(0, 4)], [(2, 5, False)])
    with world.state.connect() as connection:
        (found,) = reached.lost_since(connection, world.name, None)
    assert found.consumed == 5
    assert (
        str(found)
        == f"t/shop_0 lost what it had of {world.name} [0] from offset 2 to 5, and the broker has it from 4 on"
    )


@pytest.mark.parametrize(
    ("noted", "consumed", "goes_on"),
    [(None, 0, False), (reached.BROKER, 5, False), (DATABASE, 4, True), (DATABASE, 3, False)],
)
def test_what_the_broker_deleted_before_it_was_read_stops_unless_all_but_the_one_that_lost_it_have_it(
    world: World, partition: Partition, noted: DatabaseName | None, consumed: int, goes_on: bool
) -> None:
    """Lost without a word: one database had come further than what all of them had, and the others went on behind the
    messages that they never got."""
    with world.state.begin() as connection:
        record.set_back(connection, partition, 2)
        connection.execute(sa.delete(record.table).where(record.table.c.topic_id == partition.topic_id))
        if noted is not None:
            found = reached.LostMessages(noted, f"{world.name} [0]", 2, 5, 2, consumed)
            reached.note_lost(connection, world.name, found)
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    for done in admin.delete_records([TopicPartition(world.name, 0, 4)]).values():
        done.result()
    writer = FakeWriter()
    process = Process(world, writer)
    if goes_on:
        until(lambda: world.consumed(0) == 5)
        assert writer.offsets == [(0, 4)]
    else:
        until(lambda: "the next offset to read is 2, but the broker has 4 to 5" in world.halted().get(0, ""))
        assert writer.offsets == []
    process.end()


class KnowsMore(FakeWriter):
    """A target that knows a later epoch than the state."""

    known = 7

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None = None,
    ) -> ReachedBefore:
        if claim.epoch <= self.known:
            raise StateBehind(claim, "there", self.known)
        return super().take(claim, watermark, had)


def test_where_a_target_knows_a_later_epoch_the_lease_gets_one_above(world: World, partition: Partition) -> None:
    """Lost: newer rows, by a holder of an epoch that a state that was put back gave again."""
    writer = KnowsMore()
    process = Process(world, writer)
    until(lambda: len(writer.taken) == 2)
    assert [epoch for _, epoch, _ in writer.taken] == [8, 8]
    world.send(0, 1)
    until(lambda: world.consumed(0) == 6)
    with world.state.connect() as connection:
        epochs = sa.select(lease.table.c.epoch).where(lease.table.c.name == partition.lease)
        assert connection.execute(epochs.where(lease.table.c.migration == world.name)).scalar() == 8
        assert compared.load(connection, world.name) == {}, "what was forgotten since then went with the state"
    process.end()


def test_where_the_broker_has_another_message_than_was_consumed_all_that_it_has_is_read_once_more(
    world: World, partition: Partition
) -> None:
    """Lost: messages that came in the places of others before anybody looked."""
    with world.state.begin() as connection:
        table = record.last_consumed
        connection.execute(sa.update(table).where(table.c.topic_id == partition.topic_id).values(tx=table.c.tx + 1))
    writer = FakeWriter()
    process = Process(world, writer)
    until(lambda: world.consumed(0) == 5 and len(writer.offsets) == 5)
    process.end()
    assert [offset for _, offset in writer.offsets] == [0, 1, 2, 3, 4]
    with world.state.connect() as connection:
        (found,) = reached.lost_since(connection, world.name, None)
        assert reached.load(connection, partition) == {}
    assert str(found) == f"Kafka lost acknowledged messages of {world.name} [0], from offset 5 or before to 5"


@pytest.mark.parametrize(("stored", "expected"), [("same", [(0, 1)]), ("other", [(0, 0), (0, 1)]), ("old", [(0, 1)])])
def test_a_message_of_canal_in_the_place_of_another_is_told_by_what_it_holds(
    world: World, stored: str, expected: list[tuple[int, int]]
) -> None:
    """Lost: changes in a partition that was cut and filled again by Canal, as offsets alone say nothing of it."""

    def body(value: str) -> bytes:
        return json.dumps({"database": "shop", "table": "t", "type": "INSERT", "data": [{"id": value}]}).encode()

    world.send(0, 1, body("1"))
    process = Process(world, FakeWriter())
    until(lambda: world.consumed(0) == 1)
    process.end()
    other = decode(body("2"), "", 0).identity[1].ordinal
    now = {"same": {}, "other": {"ordinal": other}, "old": {"ordinal": 0}}[stored]
    table = record.last_consumed
    with world.state.begin() as connection:
        connection.execute(sa.update(table).where(table.c.topic_id == world.topic_id).values(**now, source="canal"))
    writer = FakeWriter()
    process = Process(world, writer)
    world.send(0, 1, body("3"))
    until(lambda: world.consumed(0) == 2 and len(writer.offsets) == len(expected))
    process.end()
    assert writer.offsets == expected
    assert len(lost(world)) == (stored == "other")


def test_the_message_that_was_consumed_last_is_looked_at_and_not_given_on(world: World, partition: Partition) -> None:
    writer = FakeWriter()
    process = Process(world, writer)
    world.send(0, 1)
    until(lambda: world.consumed(0) == 6)
    process.end()
    assert (writer.offsets, lost(world)) == ([(0, 5)], [])


def test_what_a_database_lost_in_which_applications_write_is_named_and_not_applied(
    world: World, partition: Partition
) -> None:
    """Older changes would come over newer rows."""
    writer = FakeWriter(behind={DATABASE: 2}, active=True)
    process = Process(world, writer)
    world.send(0, 1)
    until(lambda: world.consumed(0) == 6)
    process.end()
    assert (writer.offsets, lost(world)) == ([(0, 5)], [(2, 5, False)])
    with world.state.connect() as connection:
        assert reached.load(connection, partition) == {DATABASE: 2}


@pytest.mark.parametrize(("most", "recorded", "counts"), [(5, 5, True), (6, 5, False), (5, 3, True), (4, 3, False)])
def test_a_state_that_was_put_back_while_nothing_ran_is_known_by_what_the_targets_have(
    world: World, partition: Partition, most: int, recorded: int, counts: bool
) -> None:
    """Lost: markers of foreign keys that went with the state, under a certificate from before. No target can have more
    than has a record; epochs are in their order where all processes were stopped for the restore."""
    if recorded < 5:  # it is killed between its write and its mark; or a record is of a time after the restore
        with world.state.begin() as connection:
            of_partition = record.table.c.topic_id == partition.topic_id
            record.set_back(connection, partition, recorded)
            new = sa.update(record.table).where(of_partition, record.table.c.message_offset >= recorded)
            connection.execute(new.values(state=0))
            if not counts:
                gone = sa.delete(record.table).where(of_partition, record.table.c.message_offset == recorded)
                connection.execute(gone)
    process = Process(world, FakeWriter(most={0: most}))
    until(lambda: world.consumed(0) == 5)
    world.send(0, 1)
    until(lambda: world.consumed(0) == 6)
    process.end()
    with world.state.connect() as connection:
        assert bool(compared.load(connection, world.name)) == counts


def test_a_state_that_is_put_back_under_a_running_consumer_begins_its_partition_again(
    world: World, partition: Partition
) -> None:
    """Lost: that offsets are committed: records that were new then stayed so for ever."""
    writer = FakeWriter()
    process = Process(world, writer)
    until(lambda: bool(writer.taken))
    with world.state.begin() as connection:
        record.set_back(connection, partition, 3)
        behind = (record.table.c.topic_id == partition.topic_id, record.table.c.message_offset >= 3)
        connection.execute(sa.update(record.table).where(*behind).values(state=0))
    world.send(0, 1)
    until(lambda: world.consumed(0) == 6)
    process.end()
    assert writer.offsets == [(0, 5), (0, 3), (0, 4), (0, 5)]
    assert world.states(0)[0] == 0
    with world.state.connect() as connection:
        assert compared.load(connection, world.name) == {}
