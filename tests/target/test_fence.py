"""The fence: one writer, one order, and our own mark (invariants fenced-writer, own-writes-marked)."""

from __future__ import annotations

import threading

import pymysql
import pytest

from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost
from migrate.mysql.connection import Connection
from migrate.mysql.errors import passes
from migrate.state.record import Partition
from migrate.target import fence, pool, routing
from tests.helpers import address, make_settings
from tests.target.conftest import TargetSide

AT = Coordinate(1, 2, 3, 2**62)


def raise_to(connection: Connection, partition: Partition, epoch: int, at: Coordinate | None = AT) -> None:
    with connection.transaction():
        fence.raise_to(connection, partition, "s", epoch, at)


def test_a_new_partition_has_nothing_applied(side: TargetSide, partition: Partition) -> None:
    assert fence.read(side.one, partition, "s") is None
    assert fence.take(side.one, partition, ["s", "z"], 1) == {"s": None, "z": None}
    assert fence.read(side.one, partition, "s") is None


def test_what_was_applied_is_told_to_the_next_owner_by_source(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s", "z"], 1)
    raise_to(side.one, partition, 1)
    assert fence.take(side.two, partition, ["s", "z"], 2) == {"s": AT, "z": None}
    other = Partition(partition.migration, "another topic", partition.number)
    assert fence.take(side.two, other, ["s"], 1) == {"s": None}


def test_an_owner_that_was_replaced_writes_nothing(side: TargetSide, partition: Partition) -> None:
    """Two owners; the older one's transaction rolls back at its first statement."""
    side.one.execute("CREATE TABLE written (id INT)")
    fence.take(side.one, partition, ["s"], 1)
    fence.take(side.two, partition, ["s"], 2)

    def write(connection: Connection, epoch: int) -> None:
        with connection.transaction():
            fence.raise_to(connection, partition, "s", epoch, AT)
            connection.execute("INSERT INTO written VALUES (%s)", [epoch])

    with pytest.raises(OwnershipLost, match="partition 2 has another owner"):
        write(side.one, 1)
    write(side.two, 2)
    assert side.rows("written") == [(2,)]
    side.one.execute("DROP TABLE written")
    with pytest.raises(OwnershipLost, match=r"partition 2 has another owner \(epoch 2\)"):
        fence.take(side.one, partition, ["s"], 1)


def test_taking_it_again_under_the_same_epoch_is_allowed(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s"], 3)
    raise_to(side.one, partition, 3)
    assert fence.take(side.one, partition, ["s"], 3) == {"s": AT}


def test_without_a_fence_nobody_writes(side: TargetSide, partition: Partition) -> None:
    with pytest.raises(OwnershipLost):
        raise_to(side.one, partition, 1)


def test_a_rolled_back_transaction_leaves_the_fence_where_it_was(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s"], 1)
    side.one.raw.begin()
    fence.raise_to(side.one, partition, "s", 1, AT)
    side.one.raw.rollback()
    assert fence.read(side.one, partition, "s") is None


def test_a_new_owner_waits_for_a_transaction_in_flight_and_sees_it(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s"], 1)
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 20")
    found: list[dict[str, Coordinate | None]] = []
    taking = threading.Thread(target=lambda: found.append(fence.take(side.two, partition, ["s"], 2)))
    with side.one.transaction():
        fence.raise_to(side.one, partition, "s", 1, AT)
        taking.start()
        taking.join(0.3)
        assert taking.is_alive()
    taking.join(20)
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 1")
    assert found == [{"s": AT}]


def test_an_owner_that_was_replaced_meanwhile_does_not_lower_the_epoch(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s"], 1)
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 20")
    outcomes: list[object] = []

    def take() -> None:
        try:
            outcomes.append(fence.take(side.two, partition, ["s"], 2))
        except OwnershipLost:
            outcomes.append("lost")

    taking = threading.Thread(target=take)
    with side.one.transaction():
        where = "WHERE topic_id = %s AND source = 's'"
        side.one.execute(f"UPDATE {fence.FENCE} SET epoch = 3 {where}", [partition.topic_id])
        taking.start()
        taking.join(0.3)
        assert taking.is_alive()
    taking.join(20)
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 1")
    assert outcomes == ["lost"]
    raise_to(side.one, partition, 3)


def test_the_first_statement_keeps_a_second_writer_out(side: TargetSide, partition: Partition) -> None:
    fence.take(side.one, partition, ["s"], 1)
    with side.one.transaction():
        fence.raise_to(side.one, partition, "s", 1, AT)
        with pytest.raises(pymysql.OperationalError, match="1205"):
            raise_to(side.two, partition, 1)


def test_a_transaction_without_changes_of_its_own_still_touches_the_fence(
    side: TargetSide, partition: Partition
) -> None:
    """Invariant own-writes-marked: each of our transactions is, delayed deletes too, whose coordinate does not rise."""
    fence.take(side.one, partition, ["s"], 1)
    raise_to(side.one, partition, 1)
    before = side.one.one(f"SELECT writes FROM {fence.FENCE} WHERE topic_id = %s", [partition.topic_id])
    raise_to(side.one, partition, 1, None)
    after = side.one.one(f"SELECT writes FROM {fence.FENCE} WHERE topic_id = %s", [partition.topic_id])
    assert before is not None
    assert after is not None
    assert after[0] == before[0] + 1
    assert fence.read(side.one, partition, "s") == AT


def test_two_owners_that_take_a_new_partition_at_once_end_with_the_later_epoch(
    side: TargetSide, partition: Partition
) -> None:
    outcomes: list[object] = []

    def take(connection: Connection, epoch: int) -> None:
        try:
            outcomes.append(fence.take(connection, partition, ["s"], epoch))
        except (OwnershipLost, pymysql.MySQLError) as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=take, args=pair) for pair in ((side.one, 1), (side.two, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fence.take(side.two, partition, ["s"], 2)  # what the merger does after a duplicate: once more
    with pytest.raises(OwnershipLost):
        raise_to(side.one, partition, 1)
    raise_to(side.two, partition, 2)


def test_an_owner_frozen_inside_a_transaction_does_not_keep_the_next_one_out(
    side: TargetSide, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session lives on, and says nothing."""
    monkeypatch.setattr(pool, "SILENT_SECONDS", 1)
    server = side.box.targets[0]
    settings = make_settings(targets=[{"name": name, **address(server)} for name in ("t0", "t1")])
    frozen = pool.connect_database(settings, routing.TargetDatabase("ds_0", "t0", side.database))
    fence.take(frozen, partition, ["s"], 1)
    frozen.raw.begin()
    fence.raise_to(frozen, partition, "s", 1, AT)
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 40")
    assert fence.take(side.two, partition, ["s"], 2) == {"s": None}
    side.two.execute("SET SESSION innodb_lock_wait_timeout = 1")
    with pytest.raises(pymysql.MySQLError) as error:
        frozen.raw.commit()
    assert passes(error.value)
    frozen.close()
