"""How a process ended by an error that may pass, for `migrate status`: `migrate run` starts it again."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.errors import MigrateError
from migrate.state import columns
from migrate.state.database import metadata, now

table = sa.Table(
    "ending",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("process", sa.String(255), primary_key=True),
    sa.Column("reason", sa.Text),
    sa.Column("hint", sa.Text),
    sa.Column("at", sa.DateTime),
)


class ExitReason(NamedTuple):
    """The last one of a process; it may have been started again by now."""

    process: str
    reason: str
    hint: str
    at: datetime


def note(connection: sa.Connection, migration: str, process: str, error: MigrateError) -> None:
    values = {**columns.told(error), "at": now}
    statement = insert(table).values(migration=migration, process=process, **values)
    connection.execute(statement.on_duplicate_key_update(values))


def clear(connection: sa.Connection, migration: str, process: str) -> None:
    """It works again, or was stopped, or stopped for good, since."""
    connection.execute(sa.delete(table).where(table.c.migration == migration, table.c.process == process))


def every(connection: sa.Connection, migration: str) -> list[ExitReason]:
    """By name."""
    rows = connection.execute(
        sa.select(table.c.process, table.c.reason, table.c.hint, table.c.at)
        .where(table.c.migration == migration)
        .order_by(table.c.process)
    )
    return [ExitReason(*row) for row in rows]
