"""Writes that no stream carries: made at a side while it was standby, had for a side that was active by then, or at a
server that was lost.

Each key is listed until both sides were found equal. A switch waits for that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa

from migrate.model.change import Key, Origin, from_stored, key_json, stored
from migrate.model.coordinate import Coordinate
from migrate.model.table import TableId
from migrate.state import migration as migrations
from migrate.state import since_verification, verification
from migrate.state.columns import how_many, is_table, of_coordinate, of_table, table_row
from migrate.state.database import metadata, put_all

table = sa.Table(
    "foreign_write",
    metadata,
    *of_table(key=True),
    sa.Column("key_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("key_text", sa.Text),
    sa.Column("kind", sa.String(8)),
    *of_coordinate(),
    sa.Column("seen", sa.DateTime),
    since_verification.column(),
)
MOST = 10_000
"""Keys of a table that are listed one by one; of more, the table is, and a clean verification of it settles that."""
EVERY = ""
"""In place of a key: more than MOST of the table."""
_AT_ONCE = 500
_LATER = {
    name: f"{{{name}}}" for name in ("kind", "incarnation", "file_no", "tx", "ordinal", since_verification.COLUMN)
}
_LATER["seen"] = "CURRENT_TIMESTAMP(6)"


class Kind(StrEnum):
    FOREIGN = "foreign"
    """Written at a side while it was standby, by somebody else than the stream."""
    LATE = "late"
    """Read by the stream before, and had for a side where applications write by now."""
    UNREAD = "unread"
    """A lost server may have its row, and a cutover goes without that server: the standby side keeps what it had."""


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """One key of a table as the stream's source has it; None stands for every key of it."""

    id: TableId
    key: Key | None
    kind: Kind
    origin: Origin
    seen: datetime | None = None


def note(connection: sa.Connection, migration: str, found: Iterable[ForeignWrite]) -> None:
    """List keys; one that is listed already has the newer coordinate. Listing the same again changes nothing."""
    latest = {(one.id, one.key): one for one in found}
    if (since := verification.equal_since(connection, migration)) is not None:
        settled = table.c[since_verification.COLUMN] < since
        connection.execute(sa.delete(table).where(table.c.migration == migration, settled))
    began = {since_verification.COLUMN: since_verification.began(connection)}
    rows = [{**_row(migration, one), **began} for one in latest.values()]
    for start in range(0, len(rows), _AT_ONCE):
        put_all(connection, "foreign_write", rows[start : start + _AT_ONCE], _LATER)
    for id_ in {one.id for one in latest.values()}:
        if how_many(connection, table, is_table(table, migration, id_)) > MOST:
            last = next(one for one in latest.values() if one.id == id_)
            connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))
            whole = _row(migration, ForeignWrite(id_, None, last.kind, last.origin))
            put_all(connection, "foreign_write", [{**whole, **began}], _LATER)


def _row(migration: str, one: ForeignWrite) -> dict[str, object]:
    text, at = EVERY if one.key is None else key_json(one.key), stored(one.origin)
    place = {"incarnation": at.incarnation, "file_no": at.file, "tx": at.transaction, "ordinal": at.ordinal}
    key = {"key_hash": hashlib.sha256(text.encode()).digest(), "key_text": text, "kind": one.kind.value}
    return {**table_row(migration, one.id), **key, **place}


def every(connection: sa.Connection, migration: str, most: int | None = None) -> list[ForeignWrite]:
    """What no clean verification of all tables has settled since, by table and coordinate. most: how many."""
    columns = table.c
    rows = connection.execute(
        sa.select(table)
        .where(*_open(connection, migration))
        .order_by(columns.source, columns.table_schema, columns.table_name, columns.file_no, columns.tx)
        .limit(most)
    )
    return [
        ForeignWrite(
            (row.source, row.table_schema, row.table_name),
            None if row.key_text == EVERY else tuple(json.loads(row.key_text)),
            Kind(row.kind),
            from_stored(Coordinate(row.incarnation, row.file_no, row.tx, row.ordinal)),
            row.seen,
        )
        for row in rows
    ]


def count(connection: sa.Connection, migration: str) -> int:
    """How many keys no clean verification of all tables has settled since."""
    return how_many(connection, table, _open(connection, migration))


def count_both(connection: sa.Connection, migration: str) -> int:
    """As `count`, of a migration's two streams together. migration: either of them."""
    return sum(count(connection, name) for name in migrations.both_ways(connection, migration))


def _open(connection: sa.Connection, migration: str) -> list[sa.ColumnElement[bool]]:
    since = verification.equal_since(connection, migration)
    return [table.c.migration == migration, *since_verification.unsettled(table, since)]


def settle(connection: sa.Connection, migration: str, found: Iterable[ForeignWrite]) -> int:
    """Strike out those whose sides were found equal since, unless they were written again meanwhile; how many."""
    struck = 0
    for one in found:
        row = _row(migration, one)
        wanted = ("key_hash", "incarnation", "file_no", "tx", "ordinal")
        same = [table.c[name] == row[name] for name in wanted]
        same.append(table.c.seen == one.seen)
        struck += connection.execute(sa.delete(table).where(*is_table(table, migration, one.id), *same)).rowcount
    return struck


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """Of a table that is no longer in the migration."""
    connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))
