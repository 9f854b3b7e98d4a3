"""What a person asked of the copy's throttle by `migrate throttle`; a running copy looks every second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata

table = sa.Table(
    "throttle",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("paused", sa.SmallInteger),
    sa.Column("chunks", sa.Integer),
    sa.Column("min_chunks", sa.Integer),
    sa.Column("rows_per_second", sa.BigInteger),
    sa.Column("max_threads_running", sa.BigInteger),
    sa.Column("max_history_length", sa.BigInteger),
    sa.Column("max_replica_lag_seconds", sa.Double),
)


@dataclass(frozen=True, slots=True)
class AskedLimits:
    """None: as the config says."""

    paused: bool = False
    chunks: int | None = None
    min_chunks: int | None = None
    rows_per_second: int | None = None
    max_threads_running: int | None = None
    max_history_length: int | None = None
    max_replica_lag_seconds: float | None = None


NAMES = tuple(AskedLimits.__slots__)


def get(connection: sa.Connection, migration: str, *, lock: bool = False) -> AskedLimits:
    """lock: until the transaction ends, so that nobody changes it between this and `put`."""
    wanted = sa.select(*(table.c[name] for name in NAMES)).where(table.c.migration == migration)
    row = connection.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    return AskedLimits(bool(row[0]), *row[1:]) if row else AskedLimits()


def put(connection: sa.Connection, migration: str, changes: Mapping[str, Any]) -> None:
    """Change what is named by column."""
    row = {"migration": migration, "paused": False, **changes}
    connection.execute(insert(table).values(row).on_duplicate_key_update(dict(changes)))


def forget(connection: sa.Connection, migration: str) -> None:
    """Everything as the config says, and not paused."""
    connection.execute(sa.delete(table).where(table.c.migration == migration))
