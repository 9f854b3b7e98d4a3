"""The position moves over delivered transactions only, in order (rule 3)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from migrate.publish.acks import Acks, Boundary
from migrate.publish.gtid import MysqlGtids
from migrate.state.position import Position, from_timestamp

START = Position("s", "h:1", 1, "", 9, 1, "binlog.000001", 4, batch=10)

UUID = "7925bfdf-e5fc-11f1-aea2-02fc00000001"


def at(pos: int, batch: int) -> Position:
    return replace(START, pos=pos, batch=batch)


def end(pos: int) -> Boundary:
    return Boundary(START.file, pos)


def test_nothing_is_acknowledged_before_the_first_confirmation() -> None:
    acks = Acks(START)
    batch = acks.begin()
    acks.sent(batch)
    acks.end(batch, end(100))
    assert (acks.acknowledged, acks.outstanding) == (START, 1)
    acks.confirmed(batch)
    assert (acks.acknowledged, acks.outstanding) == (at(100, 11), 0)


def test_a_later_transaction_waits_for_an_earlier_one() -> None:
    acks = Acks(START)
    first, second = acks.begin(), acks.begin()
    acks.sent(first)
    acks.sent(second)
    acks.end(first, end(100))
    acks.end(second, end(200))
    acks.confirmed(second)
    assert acks.acknowledged == START
    acks.confirmed(first)
    assert acks.acknowledged == at(200, 12)


def test_a_transaction_still_being_read_is_not_acknowledged_although_all_of_it_so_far_is_confirmed() -> None:
    acks = Acks(START)
    batch = acks.begin()
    acks.sent(batch)
    acks.confirmed(batch)
    assert acks.acknowledged == START
    acks.sent(batch)
    acks.end(batch, end(100))
    assert acks.acknowledged == START
    acks.confirmed(batch)
    assert acks.acknowledged == at(100, 11)


def test_a_transaction_without_messages_moves_the_position_in_its_turn() -> None:
    acks = Acks(START)
    first, empty = acks.begin(), acks.begin()
    acks.sent(first)
    acks.end(first, end(100))
    acks.end(empty, end(150))
    assert acks.acknowledged == START
    acks.confirmed(first)
    assert acks.acknowledged == at(150, 12)
    acks.end(acks.begin(), end(160))
    assert acks.acknowledged == at(160, 13)


def test_batch_ids_only_rise_also_over_a_restart() -> None:
    acks = Acks(START)
    assert [acks.begin().id, acks.begin().id] == [11, 12]


def test_the_gtid_set_has_what_is_delivered_and_nothing_that_waits() -> None:
    acks = Acks(START, MysqlGtids.parse(f"{UUID}:1-7:9"))
    batches = [acks.begin() for _ in range(3)]
    for batch, number in zip(batches, (8, 10, 11), strict=True):
        acks.sent(batch)
        acks.end(batch, Boundary(START.file, number * 10, 1_700_000_000 + number, f"{UUID}:{number}"))
    acks.confirmed(batches[0])
    acks.confirmed(batches[2])
    assert (acks.acknowledged.gtid_set, acks.acknowledged.pos) == (f"{UUID}:1-9", 80)
    acks.confirmed(batches[1])
    assert (acks.acknowledged.gtid_set, acks.acknowledged.pos) == (f"{UUID}:1-11", 110)
    assert acks.acknowledged.event_time == from_timestamp(1_700_000_011)


def test_the_event_time_stays_where_the_log_tells_none() -> None:
    acks = Acks(START)
    acks.end(acks.begin(), Boundary(START.file, 100, 1_700_000_000))
    acks.end(acks.begin(), Boundary(START.file, 120))
    assert acks.acknowledged.event_time == from_timestamp(1_700_000_000)


def test_behind_an_anonymous_transaction_the_set_is_not_kept_any_more() -> None:
    acks = Acks(START, MysqlGtids.parse(f"{UUID}:1-7"))
    acks.end(acks.begin(), Boundary(START.file, 100, 0, ""))
    acks.end(acks.begin(), Boundary(START.file, 200, 0, f"{UUID}:8"))
    assert (acks.acknowledged.gtid_set, acks.acknowledged.pos) == ("", 200)


@given(st.data())
def test_whatever_order_the_broker_confirms_in_the_position_is_the_end_of_a_delivered_prefix(
    data: st.DataObject,
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    acks = Acks(START)
    batches = []
    for number, size in enumerate(sizes, 1):
        batch = acks.begin()
        for _ in range(size):
            acks.sent(batch)
        acks.end(batch, end(100 * number))
        batches.append(batch)
    missing = list(sizes)
    for index in data.draw(st.permutations([index for index, size in enumerate(sizes) for _ in range(size)])):
        delivered = next((number for number, left in enumerate(missing) if left), len(sizes))
        assert acks.acknowledged == (at(100 * delivered, 10 + delivered) if delivered else START)
        acks.confirmed(batches[index])
        missing[index] -= 1
    assert acks.acknowledged == at(100 * len(sizes), 10 + len(sizes))
    assert acks.outstanding == 0
