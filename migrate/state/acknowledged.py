"""Up to where the broker had acknowledged what each publisher sent, by partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state.database import metadata, put_all

table = sa.Table(
    "acknowledged",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("topic_id", sa.String(36), primary_key=True),
    sa.Column("partition_no", sa.Integer, primary_key=True),
    sa.Column("next_offset", sa.BigInteger),
    sa.Column("cut_at", sa.BigInteger),
)


def put(connection: sa.Connection, source: str, ends: Mapping[Partition, int]) -> None:
    """One past the last message of a source that each partition had."""
    rows = [{**part.row, "source": source, "next_offset": end} for part, end in ends.items()]
    put_all(connection, "acknowledged", rows, {"next_offset": "{next_offset}"})


def load(connection: sa.Connection, migration: str, source: str) -> dict[Partition, int]:
    wanted = sa.select(table.c.topic_id, table.c.partition_no, table.c.next_offset)
    rows = connection.execute(wanted.where(*_of(migration, source)))
    return {Partition(migration, row[0], int(row[1])): int(row[2]) for row in rows}


def highest(connection: sa.Connection, migration: str, senders: Collection[str]) -> dict[Partition, int]:
    """One past the last message of any of these senders that each partition had."""
    wanted = sa.select(table.c.topic_id, table.c.partition_no, sa.func.max(table.c.next_offset))
    of_these = table.c.migration == migration, table.c.source.in_(senders)
    rows = connection.execute(wanted.where(*of_these).group_by(table.c.topic_id, table.c.partition_no))
    return {Partition(migration, row[0], int(row[1])): int(row[2]) for row in rows}


def note_cut(connection: sa.Connection, source: str, partition: Partition, offset: int, had: int) -> None:
    """The broker lost what was acknowledged from an offset on, up to another one."""
    row = {**partition.row, "source": source, "next_offset": had, "cut_at": offset}
    least = "LEAST(COALESCE(acknowledged.cut_at, {cut_at}), {cut_at})"
    put_all(connection, "acknowledged", [row], {"cut_at": least})


def cuts(connection: sa.Connection, migration: str, source: str) -> dict[Partition, int]:
    """Where the broker lost messages, until they are published again."""
    wanted = sa.select(table.c.topic_id, table.c.partition_no, table.c.cut_at)
    rows = connection.execute(wanted.where(*_of(migration, source), table.c.cut_at.is_not(None)))
    return {Partition(migration, row[0], int(row[1])): int(row[2]) for row in rows}


def forget(connection: sa.Connection, migration: str, source: str) -> None:
    """What was acknowledged after where the publisher goes back to is sent again."""
    connection.execute(sa.delete(table).where(*_of(migration, source)))


def _of(migration: str, source: str) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.migration == migration, table.c.source == source
