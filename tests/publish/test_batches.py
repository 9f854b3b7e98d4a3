"""Batches: rising ids, acknowledged in order, and the position behind them (invariant position-after-delivery)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.model.errors import StopError
from migrate.publish.batches import EMPTY, Batch, Batches, Boundary, Messages
from migrate.publish.log.gtid import MysqlGtids
from migrate.state.outstanding import ListedBatches
from migrate.state.position import Position, from_timestamp

START = Position("s", "h:1", 1, "", 9, 1, "binlog.000001", 4, batch=10)
UUID = "7925bfdf-e5fc-11f1-aea2-02fc00000001"


def at(pos: int, batch: int) -> Position:
    return replace(START, pos=pos, batch=batch)


def end(pos: int) -> Boundary:
    return Boundary(START.file, pos)


def some(count: int) -> Messages:
    return {"topic": [(0, b"k", b"v" * 10)] * count} if count else {}


def sent(batches: Batches, pos: int | None, messages: int = 1, boundary: Boundary | None = None) -> Batch:
    """One transaction put, got and handed to the broker; `pos` None: a piece of one."""
    batches.put(some(messages), messages, 10 * messages, boundary or (None if pos is None else end(pos)))
    batch = batches.get(1)
    batches.sent(batch, sum(map(len, batch.messages.values())))
    if not batch.messages:
        batches.settle()
    return batch


def ids(batches: Batches) -> list[int]:
    return [batch.id for batch in batches.outstanding]


def test_an_empty_get_has_id_minus_one_and_uses_no_id() -> None:
    batches = Batches(START)
    assert (batches.get(5).id, batches.get(5, 0).id, EMPTY) == (-1, -1, -1)
    assert sent(batches, 100).id == 11
    assert ids(batches) == [11]


def test_ids_only_rise_also_over_a_restart_and_a_rollback() -> None:
    batches = Batches(START)
    assert [sent(batches, 100).id, sent(batches, 200).id] == [11, 12]
    batches.rollback()
    assert sent(batches, 100).id == 13


class Clock:
    """Time that passes only while a get waits."""

    def __init__(self, batches_of: list[Batches], puts: list[tuple[float, int]]) -> None:
        self.now = 0.0
        self._batches = batches_of
        self._puts = puts  # (when, rows)

    def __call__(self) -> float:
        return self.now

    def more(self, seconds: float) -> None:
        if self._puts and self._puts[0][0] <= self.now + seconds:
            self.now, rows = self._puts.pop(0)
            self._batches[0].put(some(rows), rows, 10 * rows, end(int(self.now * 1000) + 100))
        else:
            self.now += seconds


@pytest.mark.parametrize(
    ("timeout", "rows", "when"),
    [(None, 0, 0.0), (0.0, 0, 0.0), (0.5, 1, 0.5), (1.0, 3, 0.8), (0.8, 3, 0.8), (9.0, 3, 0.8)],
    ids=["none", "zero", "times-out", "full", "full-in-time", "full-early"],
)
def test_a_get_returns_at_its_size_or_time_out(timeout: float | None, rows: int, when: float) -> None:
    own: list[Batches] = []
    clock = Clock(own, [(0.2, 1), (0.8, 2), (5.0, 1)])
    own.append(Batches(START, more=clock.more, clock=clock))
    batch = own[0].get(3, timeout)
    assert (batch.rows, clock.now) == (rows, when)
    assert batch.id == (11 if rows else EMPTY)


def test_what_waits_is_ready_when_it_is_full_or_has_waited_long_enough() -> None:
    own: list[Batches] = []
    clock = Clock(own, [])
    own.append(Batches(START, clock=clock))
    assert not own[0].ready(3)
    own[0].put(some(1), 1, 10, end(100))
    assert own[0].ready(3)
    assert not own[0].ready(3, 0.5)
    clock.now = 0.5
    assert own[0].ready(3, 0.5)
    own[0].put(some(2), 2, 20, end(200))
    assert own[0].ready(3, 5.0)


def test_a_batch_holds_whole_transactions_and_acknowledges_the_last() -> None:
    batches = Batches(START, MysqlGtids())
    for number in (1, 2, 3):
        batches.put(some(2), 2, 20, Boundary(START.file, 100 * number, 0, f"{UUID}:{number}"))
    batch = batches.get(2)
    assert (batch.rows, len(batch.messages["topic"])) == (6, 6)
    batches.ack(batch.id)
    assert batches.acknowledged == replace(at(300, 11), gtid_set=f"{UUID}:1-3")


def test_only_the_smallest_outstanding_one_can_be_acknowledged() -> None:
    batches = Batches(START)
    first, second = sent(batches, 100), sent(batches, 200)
    for wrong in (second.id, first.id - 1, EMPTY):
        with pytest.raises(StopError, match=f"batch {wrong} is .* out of turn; the first outstanding one is 11"):
            batches.ack(wrong)
    assert (ids(batches), batches.acknowledged) == ([11, 12], START)
    batches.ack(first.id)
    with pytest.raises(StopError, match="out of turn"):
        batches.ack(first.id)
    batches.ack(second.id)
    with pytest.raises(StopError, match="is none"):
        batches.ack(13)
    assert batches.acknowledged == at(200, 12)


def test_a_rollback_forgets_what_is_not_acknowledged_and_says_where_to_go_on() -> None:
    batches = Batches(START)
    first = sent(batches, 100)
    sent(batches, 200)
    batches.put(some(1), 1, 10, end(300))
    batches.confirmed(first)
    assert batches.rollback() == at(100, 11)
    assert (ids(batches), batches.get(1).id) == ([], EMPTY)
    sent(batches, 200)
    assert batches.acknowledged == at(100, 11)


def test_the_byte_limit_counts_what_waits_and_what_is_outstanding() -> None:
    batches = Batches(START, limit_bytes=30)
    assert batches.put(some(1), 1, 10, end(100))
    batch = batches.get(1)
    assert batches.put(some(1), 1, 10, end(200))
    assert not batches.put(some(1), 1, 10, end(300))
    batches.ack(batch.id)
    assert batches.put({}, 0, 0, end(400))
    batches.rollback()
    assert batches.put(some(2), 2, 20, end(200))


def test_what_is_outstanding_can_be_listed() -> None:
    batches = Batches(START)
    sent(batches, 100, 2)
    sent(batches, None, 3)
    assert ListedBatches.of(batches.outstanding) == ListedBatches(
        2, 5, 50, ((11, 2, 20, "binlog.000001:100"), (12, 3, 30, ""))
    )


def test_nothing_is_acknowledged_before_the_first_confirmation() -> None:
    batches = Batches(START)
    batch = sent(batches, 100)
    assert (batches.acknowledged, ids(batches)) == (START, [11])
    batches.confirmed(batch)
    assert (batches.acknowledged, ids(batches)) == (at(100, 11), [])


def test_a_later_transaction_waits_for_an_earlier_one() -> None:
    batches = Batches(START)
    first, second = sent(batches, 100), sent(batches, 200)
    batches.confirmed(second)
    assert batches.acknowledged == START
    batches.confirmed(first)
    assert batches.acknowledged == at(200, 12)


def test_a_transaction_still_being_read_is_not_acknowledged_although_all_of_it_so_far_is_confirmed() -> None:
    batches = Batches(START)
    batches.confirmed(sent(batches, None))
    assert batches.acknowledged == START
    last = sent(batches, 100)
    assert batches.acknowledged == START
    batches.confirmed(last)
    assert batches.acknowledged == at(100, 12)


def test_a_transaction_without_messages_moves_the_position_in_its_turn() -> None:
    batches = Batches(START)
    first = sent(batches, 100)
    sent(batches, 150, 0)
    assert batches.acknowledged == START
    batches.confirmed(first)
    assert batches.acknowledged == at(150, 12)
    sent(batches, 160, 0)
    assert batches.acknowledged == at(160, 13)


def test_the_gtid_set_has_what_is_delivered_and_nothing_that_waits() -> None:
    batches = Batches(START, MysqlGtids.parse(f"{UUID}:1-7:9"))
    eight, ten, eleven = (
        sent(batches, None, 1, Boundary(START.file, number * 10, 1_700_000_000 + number, f"{UUID}:{number}"))
        for number in (8, 10, 11)
    )
    batches.confirmed(eight)
    batches.confirmed(eleven)
    assert (batches.acknowledged.gtid_set, batches.acknowledged.pos) == (f"{UUID}:1-9", 80)
    batches.confirmed(ten)
    assert (batches.acknowledged.gtid_set, batches.acknowledged.pos) == (f"{UUID}:1-11", 110)
    assert batches.acknowledged.event_time == from_timestamp(1_700_000_011)


def test_the_event_time_stays_where_the_log_tells_none() -> None:
    batches = Batches(START)
    sent(batches, None, 0, Boundary(START.file, 100, 1_700_000_000))
    sent(batches, None, 0, Boundary(START.file, 120))
    assert batches.acknowledged.event_time == from_timestamp(1_700_000_000)


def test_behind_an_anonymous_transaction_the_set_is_not_kept_any_more() -> None:
    batches = Batches(START, MysqlGtids.parse(f"{UUID}:1-7"))
    sent(batches, None, 0, Boundary(START.file, 100, 0, ""))
    sent(batches, None, 0, Boundary(START.file, 200, 0, f"{UUID}:8"))
    assert (batches.acknowledged.gtid_set, batches.acknowledged.pos) == ("", 200)


@given(st.data())
def test_whatever_order_the_broker_confirms_in_the_position_is_the_end_of_a_delivered_prefix(
    data: st.DataObject,
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    batches = Batches(START)
    made = [sent(batches, 100 * number, size) for number, size in enumerate(sizes, 1)]
    missing = list(sizes)
    for index in data.draw(st.permutations([index for index, size in enumerate(sizes) for _ in range(size)])):
        delivered = next((number for number, left in enumerate(missing) if left), len(sizes))
        assert batches.acknowledged == (at(100 * delivered, 10 + delivered) if delivered else START)
        batches.confirmed(made[index])
        missing[index] -= 1
    assert batches.acknowledged == at(100 * len(sizes), 10 + len(sizes))
    assert batches.outstanding == []
