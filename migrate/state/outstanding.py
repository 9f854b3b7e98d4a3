"""Batches that a publisher has handed to Kafka and that were not confirmed at its last flush, for `migrate status`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata, now

table = sa.Table(
    "outstanding",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("batches", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("listed", sa.Text),
    sa.Column("idle_at", sa.DateTime),
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
class ListedBatches:
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    first: tuple[tuple[int, int, int, str], ...] = ()  # id, rows, bytes, where it ends ("" while that is not read)

    @classmethod
    def of(cls, batches: Sequence[_Batch]) -> ListedBatches:
        first = tuple(
            (batch.id, batch.rows, batch.size, f"{batch.end.file}:{batch.end.pos}" if batch.end else "")
            for batch in batches[:_NAMED]
        )
        return cls(len(batches), sum(batch.rows for batch in batches), sum(batch.size for batch in batches), first)


def put(connection: sa.Connection, migration: str, source: str, listed: ListedBatches) -> None:
    values = {
        "batches": listed.batches,
        "row_count": listed.rows,
        "bytes": listed.bytes,
        "listed": json.dumps(listed.first),
    }
    row = {"migration": migration, "source": source, **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def note_idle(connection: sa.Connection, migration: str, source: str) -> None:
    """The source is idle now, and everything that it logged is delivered: so its lag is known (a heartbeat)."""
    row = {"migration": migration, "source": source, "idle_at": now}
    nothing = {"batches": 0, "row_count": 0, "bytes": 0, "listed": "[]"}
    connection.execute(insert(table).values(row | nothing).on_duplicate_key_update(idle_at=now))


def get(connection: sa.Connection, migration: str, source: str) -> tuple[ListedBatches, datetime | None]:
    """What was outstanding at the last flush, and when the source was last seen idle (UTC of the state server)."""
    row = connection.execute(
        sa.select(table.c.batches, table.c.row_count, table.c.bytes, table.c.listed, table.c.idle_at).where(
            table.c.migration == migration, table.c.source == source
        )
    ).one_or_none()
    if row is None:
        return ListedBatches(), None
    return ListedBatches(*row[:3], tuple(tuple(item) for item in json.loads(row[3]))), row[4]


def clear(connection: sa.Connection, migration: str, source: str) -> int:
    """Forget the list of a publisher that is gone; returns how many batches it had."""
    found, _ = get(connection, migration, source)
    put(connection, migration, source, ListedBatches())
    return found.batches
