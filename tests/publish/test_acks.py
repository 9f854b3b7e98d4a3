"""The position moves over delivered transactions only, in order (rule 3)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from migrate.publish.acks import Acks
from migrate.state.position import Position

START = Position("s", "h:1", 1, "", 9, 1, "binlog.000001", 4, batch=10)


def at(pos: int) -> Position:
    return replace(START, pos=pos)


def test_nothing_is_acknowledged_before_the_first_confirmation() -> None:
    acks = Acks(START)
    batch = acks.begin()
    acks.sent(batch)
    acks.end(batch, at(100))
    assert (acks.acknowledged, acks.outstanding) == (START, 1)
    acks.confirmed(batch)
    assert (acks.acknowledged, acks.outstanding) == (at(100), 0)


def test_a_later_transaction_waits_for_an_earlier_one() -> None:
    acks = Acks(START)
    first, second = acks.begin(), acks.begin()
    acks.sent(first)
    acks.sent(second)
    acks.end(first, at(100))
    acks.end(second, at(200))
    acks.confirmed(second)
    assert acks.acknowledged == START
    acks.confirmed(first)
    assert acks.acknowledged == at(200)


def test_a_transaction_still_being_read_is_not_acknowledged_although_all_of_it_so_far_is_confirmed() -> None:
    acks = Acks(START)
    batch = acks.begin()
    acks.sent(batch)
    acks.confirmed(batch)
    assert acks.acknowledged == START
    acks.sent(batch)
    acks.end(batch, at(100))
    assert acks.acknowledged == START
    acks.confirmed(batch)
    assert acks.acknowledged == at(100)


def test_a_transaction_without_messages_moves_the_position_in_its_turn() -> None:
    acks = Acks(START)
    first, empty = acks.begin(), acks.begin()
    acks.sent(first)
    acks.end(first, at(100))
    acks.end(empty, at(150))
    assert acks.acknowledged == START
    acks.confirmed(first)
    assert acks.acknowledged == at(150)
    acks.end(acks.begin(), at(160))
    assert acks.acknowledged == at(160)


def test_batch_ids_only_rise_also_over_a_restart() -> None:
    acks = Acks(START)
    assert [acks.begin().id, acks.begin().id] == [11, 12]


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
        acks.end(batch, at(100 * number))
        batches.append(batch)
    missing = list(sizes)
    for index in data.draw(st.permutations([index for index, size in enumerate(sizes) for _ in range(size)])):
        delivered = next((number for number, left in enumerate(missing) if left), len(sizes))
        assert acks.acknowledged == (at(100 * delivered) if delivered else START)
        acks.confirmed(batches[index])
        missing[index] -= 1
    assert acks.acknowledged == at(100 * len(sizes))
    assert acks.outstanding == 0
