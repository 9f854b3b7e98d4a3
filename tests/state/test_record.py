"""Records: new, consumed, committed; the prefix; the watermark; what goes and what stays."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrate.model.coordinate import Coordinate
from migrate.state import consumed_total, record
from migrate.state.consumed_total import ConsumedTotal
from migrate.state.record import Consumed, Partition, Record, State
from tests.helpers import unique


@pytest.fixture
def partition() -> Partition:
    return Partition(unique("record"), unique("topic"), 3)


def new(*offsets: int, at: int = 0) -> list[Record]:
    return [Record(offset, "s", Coordinate(1, 2, 100 + offset + at, 0), 1) for offset in offsets]


def insert(state: sa.Engine, partition: Partition, *offsets: int) -> None:
    with state.begin() as connection:
        record.insert_new(connection, {partition: new(*offsets)})


def consume(state: sa.Engine, partition: Partition, end: int, **more: Coordinate) -> None:
    with state.begin() as connection:
        record.mark_consumed(connection, [Consumed(partition, end, more, 2, 5, 1000 + end)])


def states(state: sa.Engine, partition: Partition) -> dict[int, State]:
    with state.connect() as connection:
        rows = connection.execute(
            sa.select(record.table.c.message_offset, record.table.c.state)
            .where(record.table.c.topic_id == partition.topic_id)
            .order_by(record.table.c.message_offset)
        )
        return {row[0]: State(row[1]) for row in rows}


def test_before_anything_there_is_nothing(state: sa.Engine, partition: Partition) -> None:
    with state.connect() as connection:
        assert record.next_offset(connection, partition) is None
        assert record.last_offset(connection, partition) == -1
        assert record.watermarks(connection, partition) == {}
        assert record.uncommitted_prefix(connection, partition) is None
        assert consumed_total.totals(connection, partition.migration) == {}
        assert set(consumed_total.counts(connection, partition.migration).values()) == {0}
        record.insert_new(connection, {partition: []})


def test_a_message_read_again_keeps_its_state(state: sa.Engine, partition: Partition) -> None:
    insert(state, partition, 0, 1, 2)
    consume(state, partition, 2)
    insert(state, partition, 0, 1, 2, 3)
    assert states(state, partition) == {0: State.CONSUMED, 1: State.CONSUMED, 2: State.NEW, 3: State.NEW}


def test_a_committed_message_read_again_is_committed_again(state: sa.Engine, partition: Partition) -> None:
    insert(state, partition, 0, 1)
    consume(state, partition, 2)
    with state.begin() as connection:
        assert record.mark_committed(connection, partition, 2) == 2
    insert(state, partition, 1)
    assert states(state, partition) == {0: State.COMMITTED, 1: State.CONSUMED}
    with state.connect() as connection:
        assert record.uncommitted_prefix(connection, partition) == 2


def test_the_prefix_the_totals_and_the_watermark_move_together(state: sa.Engine, partition: Partition) -> None:
    insert(state, partition, *range(10))
    consume(state, partition, 4, s=Coordinate(1, 2, 3, 4), t=Coordinate(9, 9, 9, 2**62))
    consume(state, partition, 7, s=Coordinate(1, 2, 5, 0))
    with state.connect() as connection:
        assert record.next_offset(connection, partition) == 7
        assert record.last_offset(connection, partition) == 9
        assert record.watermarks(connection, partition) == {
            "s": Coordinate(1, 2, 5, 0),
            "t": Coordinate(9, 9, 9, 2**62),
        }
        assert consumed_total.totals(connection, partition.migration) == {partition: ConsumedTotal(7, 4, 10, 1007)}
        assert consumed_total.counts(connection, partition.migration) == {
            State.NEW: 3,
            State.CONSUMED: 7,
            State.COMMITTED: 0,
        }
        assert record.done_offsets(connection, partition, [3, 6, 7, 8]) == {3, 4, 5, 6}


def test_an_older_event_does_not_turn_the_clock_back(state: sa.Engine, partition: Partition) -> None:
    consume(state, partition, 50)
    with state.begin() as connection:
        record.mark_consumed(connection, [Consumed(partition, 60, {}, 1, 0, 0)])
        assert consumed_total.totals(connection, partition.migration) == {partition: ConsumedTotal(60, 3, 5, 1050)}


def test_a_stuck_message_holds_back_the_offset_but_not_what_came_before(state: sa.Engine, partition: Partition) -> None:
    """The committed offset is never past the lowest unfinished message; offsets may have gaps."""
    insert(state, partition, 2, 5, 9, 11, 12)
    consume(state, partition, 9)
    with state.begin() as connection:  # by hand: a later one done, an earlier one not
        connection.execute(
            sa.update(record.table)
            .where(record.table.c.topic_id == partition.topic_id, record.table.c.message_offset == 12)
            .values(state=int(State.CONSUMED))
        )
        assert record.uncommitted_prefix(connection, partition) == 6
        assert record.mark_committed(connection, partition, 6) == 2
        assert record.uncommitted_prefix(connection, partition) is None
    assert states(state, partition) == {
        2: State.COMMITTED,
        5: State.COMMITTED,
        9: State.NEW,
        11: State.NEW,
        12: State.CONSUMED,
    }


def test_a_long_prefix_is_committed_in_steps(state: sa.Engine, partition: Partition) -> None:
    insert(state, partition, *range(10))
    consume(state, partition, 10)
    ends = []
    with state.begin() as connection:
        while (end := record.uncommitted_prefix(connection, partition, limit=4)) is not None:
            ends.append((end, record.mark_committed(connection, partition, end)))
    assert ends == [(4, 4), (8, 4), (10, 2)]


def test_cleanup_takes_old_committed_records_only_and_the_watermark_outlives_them(
    state: sa.Engine, partition: Partition
) -> None:
    insert(state, partition, *range(6))
    consume(state, partition, 5, s=Coordinate(1, 2, 3, 4))
    with state.begin() as connection:
        record.mark_committed(connection, partition, 3)
        assert record.clean_up(connection, partition.migration, 300) == 0
        connection.execute(
            sa.update(record.table)
            .where(record.table.c.topic_id == partition.topic_id, record.table.c.message_offset != 2)
            .values(updated=sa.text("NOW(6) - INTERVAL 301 SECOND"))
        )
        assert record.clean_up(connection, "another migration", 300) == 0
        assert record.clean_up(connection, partition.migration, 300, limit=1) == 1
        assert record.clean_up(connection, partition.migration, 300) == 1
    assert states(state, partition) == {2: State.COMMITTED, 3: State.CONSUMED, 4: State.CONSUMED, 5: State.NEW}
    with state.connect() as connection:
        assert record.watermarks(connection, partition) == {"s": Coordinate(1, 2, 3, 4)}
        assert record.next_offset(connection, partition) == 5


def test_a_topic_made_anew_does_not_inherit_records(state: sa.Engine, partition: Partition) -> None:
    insert(state, partition, 0)
    consume(state, partition, 1, s=Coordinate(1, 2, 3, 4))
    other = Partition(partition.migration, unique("topic"), partition.number)
    with state.connect() as connection:
        assert record.next_offset(connection, other) is None
        assert record.watermarks(connection, other) == {}
        assert record.done_offsets(connection, other, [0]) == set()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["read", "consume", "commit", "cleanup"]), st.integers(0, 12)), max_size=12
    )
)
def test_whatever_happens_in_whatever_order_the_committed_offset_never_passes_a_new_record(
    state: sa.Engine, steps: list[tuple[str, int]]
) -> None:
    partition = Partition(unique("any"), unique("topic"), 0)
    committed, consumed, read = 0, 0, 0
    for step, number in steps:
        with state.begin() as connection:
            if step == "read":
                record.insert_new(connection, {partition: new(*range(consumed, max(read, number)))})
                read = max(read, number)
            elif step == "consume" and consumed <= number <= read:
                record.mark_consumed(connection, [Consumed(partition, number, {}, 0, 0, 0)])
                consumed = number
            elif step == "commit" and (end := record.uncommitted_prefix(connection, partition)) is not None:
                assert committed < end <= consumed
                record.mark_committed(connection, partition, end)
                committed = end
            elif step == "cleanup":
                record.clean_up(connection, partition.migration, 0)
            assert (record.next_offset(connection, partition) or 0) == consumed
