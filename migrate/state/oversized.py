"""Rows that make a message above the broker's limit and were left out, so that `migrate status` names them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.coordinate import Coordinate
from migrate.state import since_verification
from migrate.state.columns import of_coordinate
from migrate.state.database import metadata

table = sa.Table(
    "oversized",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("table_schema", sa.String(64)),
    sa.Column("table_name", sa.String(64)),
    *of_coordinate(key=True),
    sa.Column("operation", sa.String(8)),
    sa.Column("key_text", sa.Text),
    sa.Column("message_bytes", sa.BigInteger),
    sa.Column("at", sa.DateTime),
    since_verification.column(),
)


@dataclass(frozen=True, slots=True)
class Oversized:
    """A change that was not published; its key as a JSON list of texts."""

    source: str
    database: str
    table: str
    operation: str
    key: str
    coordinate: Coordinate
    size: int  # bytes of its message


def note(connection: sa.Connection, migration: str, row: Oversized) -> None:
    """Name a row that is left out; naming it again after a restart changes nothing."""
    at = row.coordinate
    values = {
        "table_schema": row.database,
        "table_name": row.table,
        "operation": row.operation,
        "key_text": row.key,
        "message_bytes": row.size,
    }
    place = {"incarnation": at.incarnation, "file_no": at.file, "tx": at.transaction, "ordinal": at.ordinal}
    new = {
        "migration": migration,
        "source": row.source,
        **place,
        **values,
        since_verification.COLUMN: since_verification.began(connection),
    }
    connection.execute(insert(table).values(new).on_duplicate_key_update(values))


def every(connection: sa.Connection, migration: str, verification: int | None = None) -> list[Oversized]:
    """What was left out, in the order of each source's history; verification: once this one had begun."""
    columns = table.c
    place = (columns.source, columns.incarnation, columns.file_no, columns.tx, columns.ordinal)
    rows = connection.execute(
        sa.select(
            columns.table_schema, columns.table_name, columns.operation, columns.key_text, columns.message_bytes, *place
        )
        .where(columns.migration == migration, *since_verification.unsettled(table, verification))
        .order_by(*place)
    )
    return [
        Oversized(source, database, name, operation, key, Coordinate(*coordinate), size)
        for database, name, operation, key, size, source, *coordinate in rows
    ]
