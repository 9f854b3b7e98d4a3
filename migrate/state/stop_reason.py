"""Why a process stopped for good, so that `migrate status` can say it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.errors import MigrateError, StopError
from migrate.state import columns
from migrate.state import migration as migrations
from migrate.state.database import metadata, now

_CONSUMER = "consume"
_PARTITION = f"{_CONSUMER}: "
table = sa.Table(
    "halt",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("process", sa.String(255), primary_key=True),
    sa.Column("reason", sa.Text),
    sa.Column("hint", sa.Text),
    sa.Column("at", sa.DateTime),
    sa.Column("since", sa.DateTime),
    sa.Column("code", sa.String(16)),
    sa.Column("message_offset", sa.BigInteger),
)


class StopReason(NamedTuple):
    """What stopped for good, and why."""

    process: str
    reason: str
    hint: str
    at: datetime  # its last try
    since: datetime
    code: str = ""  # of what kind (`migrate.model.errors.Code`); "" where it was no StopError
    message_offset: int | None = None  # of the message that is refused, of a partition


def of_partition(topic: str, number: int) -> str:
    """What stands for a process where one partition of the consumer is stopped."""
    return f"{_PARTITION}{topic} [{number}]"


def is_partition(process: str) -> bool:
    """Whether it is one of those, which is tried again by itself."""
    return process.startswith(_PARTITION)


def is_of_consumer(process: str) -> bool:
    return process == _CONSUMER or is_partition(process)


def note(connection: sa.Connection, migration: str, process: str, error: MigrateError) -> None:
    code, offset = (error.code, error.refused_offset) if isinstance(error, StopError) else ("", None)
    values = {**columns.told(error), "code": code, "message_offset": offset, "at": now}
    row = {"migration": migration, "process": process, **values, "since": now}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def clear(connection: sa.Connection, migration: str, process: str) -> None:
    connection.execute(sa.delete(table).where(table.c.migration == migration, table.c.process == process))


def settled(connection: sa.Connection, migration: str) -> list[StopReason]:
    """As `every`, without partitions that are being tried again because a person asked since (`ask_retry`)."""
    asked = migrations.retry_asked(connection, migration)
    found = every(connection, migration)
    return [one for one in found if asked is None or one.at > asked or not is_partition(one.process)]


def every(connection: sa.Connection, migration: str) -> list[StopReason]:
    """Everything that stopped for good, by name."""
    rows = connection.execute(
        sa.select(*(table.c[name] for name in StopReason._fields))
        .where(table.c.migration == migration)
        .order_by(table.c.process)
    )
    return [StopReason(*row) for row in rows]
