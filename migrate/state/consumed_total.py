"""What was consumed so far, counted: by partition, and by the state of the records."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state import migration as migrations
from migrate.state import record


@dataclass(frozen=True, slots=True)
class ConsumedTotal:
    """What was consumed of a partition since the migration began: messages, and rows as messages have them."""

    next_offset: int = 0
    messages: int = 0
    rows: int = 0
    event_ms: int = 0  # commit time at the source of the last change, Unix milliseconds


def totals(connection: sa.Connection, migration: str) -> dict[Partition, ConsumedTotal]:
    """Of every partition that anything was consumed of."""
    rows = connection.execute(
        sa.select(
            record.consumed.c.topic_id,
            record.consumed.c.partition_no,
            record.consumed.c.next_offset,
            record.consumed.c.messages,
            record.consumed.c.row_count,
            record.consumed.c.event_ms,
        )
        .where(record.consumed.c.migration == migration)
        .order_by(record.consumed.c.topic_id, record.consumed.c.partition_no)
    )
    return {
        Partition(migration, row[0], int(row[1])): ConsumedTotal(*(int(value) for value in row[2:])) for row in rows
    }


def prefixes(connection: sa.Connection, migration: str) -> dict[Partition, int]:
    """The end of every partition's consumed prefix, 0 where nothing came. Raises PreflightError before `init`."""
    known = totals(connection, migration)
    parts = migrations.get(connection, migration).partitions
    return {part: known[part].next_offset if part in known else 0 for part in parts}


def counts(connection: sa.Connection, migration: str) -> dict[record.State, int]:
    """How many records there are in each state."""
    rows = connection.execute(
        sa.select(record.table.c.state, sa.func.count())
        .where(record.table.c.migration == migration)
        .group_by(record.table.c.state)
    )
    found = {record.State(row[0]): int(row[1]) for row in rows}
    return {state: found.get(state, 0) for state in record.State}
