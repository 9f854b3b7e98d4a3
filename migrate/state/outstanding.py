"""Batches that a publisher has handed to Kafka and that were not confirmed at its last flush, for `migrate status`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata

table = sa.Table(
    "outstanding",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("batches", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("listed", sa.Text),
)
_NAMED = 20


class _Place(Protocol):
    @property
    def file(self) -> str: ...
    @property
    def pos(self) -> int: ...


class _Batch(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def end(self) -> _Place | None: ...


@dataclass(frozen=True, slots=True)
class Listed:
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    first: tuple[tuple[int, int, int, str], ...] = ()  # id, rows, bytes, where it ends ("" while that is not read)

    @classmethod
    def of(cls, batches: Sequence[_Batch]) -> Listed:
        first = tuple(
            (batch.id, batch.rows, batch.size, f"{batch.end.file}:{batch.end.pos}" if batch.end else "")
            for batch in batches[:_NAMED]
        )
        return cls(len(batches), sum(batch.rows for batch in batches), sum(batch.size for batch in batches), first)


def put(connection: sa.Connection, migration: str, source: str, listed: Listed) -> None:
    values = {
        "batches": listed.batches,
        "row_count": listed.rows,
        "bytes": listed.bytes,
        "listed": json.dumps(listed.first),
    }
    row = {"migration": migration, "source": source, **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def get(connection: sa.Connection, migration: str, source: str) -> Listed:
    row = connection.execute(
        sa.select(table.c.batches, table.c.row_count, table.c.bytes, table.c.listed).where(
            table.c.migration == migration, table.c.source == source
        )
    ).one_or_none()
    return Listed() if row is None else Listed(*row[:3], tuple(tuple(item) for item in json.loads(row[3])))


def clear(connection: sa.Connection, migration: str, source: str) -> int:
    """Forget the list of a publisher that is gone; returns how many batches it had."""
    found = get(connection, migration, source)
    connection.execute(sa.delete(table).where(table.c.migration == migration, table.c.source == source))
    return found.batches
