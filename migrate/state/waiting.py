"""Markers of rows that a foreign key changed, which wait until the copy of their table is closed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.message import Message, encode
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.state.columns import how_many, is_table, of_table, table_row
from migrate.state.database import metadata

table = sa.Table(
    "waiting_marker",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    *of_table(key=False)[1:],
    sa.Column("topic_id", sa.String(36), primary_key=True),
    sa.Column("partition_no", sa.Integer, primary_key=True),
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("message", sa.Text),
)
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Waiting:
    """A marker. digest: what it is known by in its partition."""

    partition: Partition
    table: TableId
    digest: bytes
    message: str


class Waits:
    """For a consumer, which may only read and write the state in transactions that are tried again."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any]) -> None:
        """run: runs an action in a transaction of the state database."""
        self._run = run

    def put(self, partition: Partition, id_: TableId, marker: Message) -> None:
        """Keep a marker; one that says the same is kept already."""
        self._run(lambda connection: put(connection, partition, id_, marker))


def put(connection: sa.Connection, partition: Partition, id_: TableId, marker: Message) -> None:
    """Keep a marker; one that says the same is kept already."""
    says = encode(
        replace(marker, es=0, ts=0, gtid="", incarnation=0, file=0, transaction=0, rows=(0,) * len(marker.data))
    )
    row = {
        **table_row(partition.migration, id_),
        "topic_id": partition.topic_id,
        "partition_no": partition.number,
        "digest": hashlib.sha256(says).digest(),
        "message": encode(marker).decode("utf-8"),
    }
    connection.execute(insert(table).values(row).on_duplicate_key_update(digest=table.c.digest))


def some(connection: sa.Connection, migration: str, tables: Collection[TableId]) -> list[Waiting]:
    """Up to 500 of those of these tables."""
    columns = table.c
    found: list[Waiting] = []
    for id_ in tables:
        wanted = sa.select(table).where(*is_table(table, migration, id_)).limit(_AT_ONCE - len(found))
        found += [
            Waiting(Partition(migration, row.topic_id, row.partition_no), id_, row.digest, row.message)
            for row in connection.execute(wanted.order_by(columns.topic_id, columns.partition_no, columns.digest))
        ]
        if len(found) >= _AT_ONCE:
            break
    return found


def of_tables(connection: sa.Connection, migration: str) -> set[TableId]:
    """The tables with markers that wait."""
    wanted = sa.select(table.c.source, table.c.table_schema, table.c.table_name).distinct()
    return {(row[0], row[1], row[2]) for row in connection.execute(wanted.where(table.c.migration == migration))}


def came_back(connection: sa.Connection, done: Collection[Waiting]) -> None:
    """They are in their partitions again."""
    for one in done:
        key = {"topic_id": one.partition.topic_id, "partition_no": one.partition.number, "digest": one.digest}
        same = [table.c[name] == value for name, value in key.items()]
        connection.execute(sa.delete(table).where(table.c.migration == one.partition.migration, *same))


def count(connection: sa.Connection, migration: str) -> int:
    return how_many(connection, table, [table.c.migration == migration])


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """Of a table that is no longer in the migration."""
    connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))
