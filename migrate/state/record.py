"""The consume-record table, the end of the consumed prefix, and the watermark (invariants repeats-by-coordinate,
record-before-queue, consumed-is-a-prefix, one-committer)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.partition import Partition as Partition
from migrate.state import columns, reached
from migrate.state.database import metadata, now, put_all
from migrate.state.reached import DatabaseName


class State(IntEnum):
    NEW = 0
    CONSUMED = 1
    COMMITTED = 2


table = sa.Table(
    "record",
    metadata,
    *columns.of_partition(),
    sa.Column("message_offset", sa.BigInteger, primary_key=True),
    sa.Column("state", sa.SmallInteger),
    sa.Column("source", sa.String(48)),
    *columns.of_coordinate(),
    sa.Column("row_count", sa.Integer),
    sa.Column("updated", sa.DateTime),
)
consumed = sa.Table(
    "consumed",
    metadata,
    *columns.of_partition(),
    sa.Column("next_offset", sa.BigInteger),
    sa.Column("messages", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("event_ms", sa.BigInteger),
    sa.Column("notes", sa.BigInteger),
)
watermark = sa.Table(
    "watermark",
    metadata,
    *columns.of_partition(),
    sa.Column("source", sa.String(48), primary_key=True),
    *columns.of_coordinate(),
)


last_consumed = sa.Table(
    "last_consumed",
    metadata,
    *columns.of_partition(),
    sa.Column("message_offset", sa.BigInteger),
    sa.Column("source", sa.String(48)),
    *columns.of_coordinate(),
)


@dataclass(frozen=True, slots=True)
class Consumed:
    """A partition's share of a batch that is at the target."""

    partition: Partition
    end: int  # the new end of the consumed prefix, exclusive
    highest: Mapping[str, Coordinate]  # new watermarks by source
    messages: int
    rows: int
    event_ms: int  # commit time at the source of the last change, Unix milliseconds; 0 when there was none
    start: int = 0  # of the batch; what is below was consumed before
    reached: Mapping[DatabaseName, int] = field(default_factory=dict)  # by database that was written (`reached`)
    last: tuple[str, Coordinate] | None = None  # the last message, by source and coordinate
    notes: int | None = None  # how many notes the state must have of the partition (`migrate.state.notes`)


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    source: str
    coordinate: Coordinate
    rows: int


_COORDINATE = ("incarnation", "file_no", "tx", "ordinal")


def _of(rows: sa.Table, partition: Partition) -> tuple[sa.ColumnElement[bool], ...]:
    return rows.c.topic_id == partition.topic_id, rows.c.partition_no == partition.number


# As text: for MySQL SQLAlchemy adds an alias, behind which the driver does not send many rows as one statement.
_INSERT_NEW = sa.text(
    "INSERT INTO record (migration, topic_id, partition_no, message_offset, state, source, incarnation, file_no, tx,"
    " ordinal, row_count) VALUES (:migration, :topic_id, :partition_no, :message_offset, :state, :source, :incarnation,"
    " :file_no, :tx, :ordinal, :row_count) ON DUPLICATE KEY UPDATE"
    f" state = CASE record.state WHEN {State.COMMITTED:d} THEN {State.CONSUMED:d} ELSE record.state END"
)


def insert_new(connection: sa.Connection, records: Mapping[Partition, Sequence[Record]]) -> None:
    """Write one poll's records as *new*; those already there keep their state (invariant record-before-queue).

    A record read again although *committed* goes back to *consumed*, so that the committer commits it again.
    """
    rows = [
        {
            **partition.row,
            "message_offset": record.offset,
            "state": int(State.NEW),
            "source": record.source,
            **dict(zip(_COORDINATE, record.coordinate, strict=True)),
            "row_count": record.rows,
        }
        for partition, some in records.items()
        for record in some
    ]
    if rows:
        connection.execute(_INSERT_NEW, rows)


def done_offsets(connection: sa.Connection, partition: Partition, offsets: Sequence[int]) -> set[int]:
    """Which of these offsets are already consumed or committed."""
    rows = connection.execute(
        sa.select(table.c.message_offset).where(
            *_of(table, partition),
            table.c.message_offset.between(min(offsets), max(offsets)),
            table.c.state != State.NEW,
        )
    )
    return {int(row[0]) for row in rows}


def states(connection: sa.Connection, partition: Partition, offsets: Sequence[int]) -> dict[int, State]:
    """The states of the records of these offsets, where there are any."""
    rows = connection.execute(
        sa.select(table.c.message_offset, table.c.state).where(
            *_of(table, partition), table.c.message_offset.in_(offsets)
        )
    )
    return {int(row[0]): State(row[1]) for row in rows}


def next_offset(connection: sa.Connection, partition: Partition) -> int | None:
    """Where reading goes on: the end of the consumed prefix. None when nothing was ever consumed."""
    found = connection.execute(sa.select(consumed.c.next_offset).where(*_of(consumed, partition))).scalar()
    return None if found is None else int(found)


def last_offset(connection: sa.Connection, partition: Partition) -> int:
    """The highest offset that has a record; -1 when there is none."""
    found = connection.execute(sa.select(sa.func.max(table.c.message_offset)).where(*_of(table, partition))).scalar()
    return -1 if found is None else int(found)


def is_there(connection: sa.Connection, partition: Partition, offset: int) -> bool:
    """Whether a message has a record."""
    wanted = sa.select(sa.literal(1)).where(*_of(table, partition), table.c.message_offset == offset)
    return connection.execute(wanted).scalar() is not None


def watermarks(connection: sa.Connection, partition: Partition) -> dict[str, Coordinate]:
    """Per source the highest coordinate inside the consumed prefix."""
    coordinate = (watermark.c[name] for name in _COORDINATE)
    rows = connection.execute(sa.select(watermark.c.source, *coordinate).where(*_of(watermark, partition)))
    return {source: Coordinate(*(int(number) for number in numbers)) for source, *numbers in rows}


def mark_consumed(connection: sa.Connection, every: Sequence[Consumed]) -> None:
    """Extend consumed prefixes, with their watermarks, in the caller's transaction."""
    ends: list[dict[str, object]] = []
    marks: list[dict[str, object]] = []
    for done in every:
        partition = done.partition
        # From the start on: a scan of all records of the last minutes would cost more than the merge.
        ours = table.c.message_offset.between(done.start, done.end - 1)
        connection.execute(
            sa.update(table)
            .where(*_of(table, partition), ours, table.c.state == State.NEW)
            .values(state=int(State.CONSUMED), updated=now)
        )
        counts = {"messages": done.messages, "row_count": done.rows, "event_ms": done.event_ms}
        ends.append({**partition.row, "next_offset": done.end, **counts})
        for source, coordinate in done.highest.items():
            values = dict(zip(_COORDINATE, coordinate, strict=True))
            marks.append({**partition.row, "source": source, **values})
    put_all(
        connection,
        "consumed",
        ends,
        {
            "next_offset": "{next_offset}",
            "messages": "consumed.messages + {messages}",
            "row_count": "consumed.row_count + {row_count}",
            "event_ms": "GREATEST(consumed.event_ms, {event_ms})",
        },
    )
    put_all(connection, "watermark", marks, {name: f"{{{name}}}" for name in _COORDINATE})
    lasts = [
        {
            **done.partition.row,
            "message_offset": done.end - 1,
            "source": done.last[0],
            **dict(zip(_COORDINATE, done.last[1], strict=True)),
        }
        for done in every
        if done.last is not None
    ]
    of_last = ("message_offset", "source", *_COORDINATE)
    put_all(connection, "last_consumed", lasts, {name: f"{{{name}}}" for name in of_last})
    reached.note(connection, {done.partition: done.reached for done in every})


def last(connection: sa.Connection, partition: Partition) -> tuple[int, str, Coordinate] | None:
    """The message that was consumed last, by offset, source and coordinate; None where nothing is known of it."""
    coordinate = (last_consumed.c[name] for name in _COORDINATE)
    wanted = sa.select(last_consumed.c.message_offset, last_consumed.c.source, *coordinate)
    row = connection.execute(wanted.where(*_of(last_consumed, partition))).one_or_none()
    return None if row is None else (int(row[0]), str(row[1]), Coordinate(*(int(number) for number in row[2:])))


def put_back(
    connection: sa.Connection, written: Mapping[Partition, int], noted: Mapping[Partition, int] | None = None
) -> set[Partition]:
    """Partitions whose consumed prefix ends before where it was written, or that have fewer notes; it stays so until
    the transaction ends. noted: how many notes partitions must have."""
    rows = _locked(connection, written)
    ends = {part: row.next_offset for part, row in rows.items()}
    counts = {part: row.notes for part, row in rows.items()}
    back = {part for part, end in written.items() if ends.get(part, 0) < end}
    return back | {part for part, count in (noted or {}).items() if counts.get(part, 0) != count}


def _locked(connection: sa.Connection, partitions: Collection[Partition]) -> dict[Partition, Any]:
    """Rows of `consumed`, until the transaction ends."""
    keys = {(part.topic_id, part.number): part for part in partitions}
    columns = consumed.c.topic_id, consumed.c.partition_no, consumed.c.next_offset, consumed.c.notes
    wanted = sa.select(*columns).where(sa.tuple_(*columns[:2]).in_([*keys]))
    return {keys[row.topic_id, row.partition_no]: row for row in connection.execute(wanted.with_for_update())}


def notes(connection: sa.Connection, partitions: Collection[Partition]) -> dict[Partition, int]:
    """How many notes each has; it stays so until the transaction ends."""
    rows = _locked(connection, partitions)
    return {part: rows[part].notes if part in rows else 0 for part in partitions}


def set_notes(connection: sa.Connection, counts: Mapping[Partition, int]) -> None:
    rows = [{**part.row, "next_offset": 0, "notes": count} for part, count in counts.items()]
    put_all(connection, "consumed", rows, {"notes": "{notes}"})


def forget(connection: sa.Connection, partition: Partition, offset: int) -> None:
    """The broker has other messages by now: reading goes on at this offset, and what is there has no records."""
    connection.execute(sa.delete(table).where(*_of(table, partition)))
    connection.execute(sa.delete(last_consumed).where(*_of(last_consumed, partition)))
    connection.execute(sa.delete(watermark).where(*_of(watermark, partition)))  # the fences tell repeats
    reached.forget(connection, partition)
    set_back(connection, partition, offset)


def set_back(connection: sa.Connection, partition: Partition, offset: int) -> None:
    """Reading goes on there: what is behind is to be applied again."""
    connection.execute(
        sa.update(consumed).where(*_of(consumed, partition), consumed.c.next_offset > offset).values(next_offset=offset)
    )


def uncommitted_prefix(
    connection: sa.Connection, partition: Partition, since: int = 0, limit: int = 50_000
) -> int | None:
    """The offset to commit: one past the last consumed record before the first *new* one; None when there is none.

    since: what is below was committed before, and need not be looked through.
    """
    first_new = connection.execute(
        sa.select(sa.func.min(table.c.message_offset)).where(
            *_of(table, partition), table.c.message_offset >= since, table.c.state == State.NEW
        )
    ).scalar()
    before = () if first_new is None else (table.c.message_offset < first_new,)
    waiting = (
        sa.select(table.c.message_offset)
        .where(*_of(table, partition), table.c.message_offset >= since, table.c.state == State.CONSUMED, *before)
        .order_by(table.c.message_offset)
        .limit(limit)
        .subquery()
    )
    last = connection.execute(sa.select(sa.func.max(waiting.c.message_offset))).scalar()
    return None if last is None else int(last) + 1


def mark_committed(connection: sa.Connection, partition: Partition, end: int, since: int = 0) -> int:
    """Mark the consumed records from `since` to below `end` committed; returns how many."""
    ours = table.c.message_offset.between(since, end - 1)
    return connection.execute(
        sa.update(table)
        .where(*_of(table, partition), ours, table.c.state == State.CONSUMED)
        .values(state=int(State.COMMITTED), updated=now)
    ).rowcount


def clean_up(connection: sa.Connection, migration: str, age_seconds: float, limit: int = 10_000) -> int:
    """Delete committed records not touched for `age_seconds`; the watermark stays (invariant repeats-by-coordinate).

    Returns how many.
    """
    old = sa.text(f"updated < NOW(6) - INTERVAL {int(age_seconds * 1_000_000)} MICROSECOND")
    statement = sa.delete(table).where(table.c.migration == migration, table.c.state == State.COMMITTED, old)
    return connection.execute(statement.with_dialect_options(mysql_limit=limit)).rowcount
