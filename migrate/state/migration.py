"""The migration's own row: its topic, its partitions, the config it was made from, and requests to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from migrate.model.errors import PreflightError
from migrate.state.database import metadata, now

table = sa.Table(
    "migration",
    metadata,
    sa.Column("name", sa.String(48), primary_key=True),
    sa.Column("config", sa.Text),
    sa.Column("topic", sa.String(249)),
    sa.Column("topic_id", sa.String(36)),
    sa.Column("partitions", sa.Integer),
    sa.Column("drain_asked", sa.DateTime),
    sa.Column("created", sa.DateTime),
)


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    topic: str
    topic_id: str
    partitions: int


def create(connection: sa.Connection, migration: Migration, config: str) -> None:
    """Write the row, or check that an existing one still says the same.

    Raises: PreflightError when the topic was re-created or the number of partitions changed since.
    """
    known = find(connection, migration.name)
    if known is None:
        row = {
            "name": migration.name,
            "config": config,
            "topic": migration.topic,
            "topic_id": migration.topic_id,
            "partitions": migration.partitions,
        }
        connection.execute(sa.insert(table).values(row))
        return
    check(known, migration)
    connection.execute(sa.update(table).where(table.c.name == migration.name).values(config=config))


def check(known: Migration, seen: Migration) -> None:
    """Compare what was stored at init with what the broker says now. Raises PreflightError."""
    if (known.topic, known.topic_id) != (seen.topic, seen.topic_id):
        raise PreflightError(
            f"topic {seen.topic} is not the one this migration began with (id {known.topic_id}, now {seen.topic_id})",
            hint="its messages are gone; start a new migration under another name and copy again",
        )
    if known.partitions != seen.partitions:
        raise PreflightError(
            f"topic {seen.topic} has {seen.partitions} partitions, the migration began with {known.partitions}",
            hint=f"if they were added by hand, stop and drain, and `migrate repartition {seen.partitions}`",
        )


def set_partitions(connection: sa.Connection, known: Migration, partitions: int) -> Migration:
    """Store another number of partitions; only for a drained migration (`migrate.ops.repartition`)."""
    connection.execute(sa.update(table).where(table.c.name == known.name).values(partitions=partitions))
    return replace(known, partitions=partitions)


def find(connection: sa.Connection, name: str) -> Migration | None:
    row = connection.execute(
        sa.select(table.c.name, table.c.topic, table.c.topic_id, table.c.partitions).where(table.c.name == name)
    ).one_or_none()
    return Migration(*row) if row else None


def get(connection: sa.Connection, name: str) -> Migration:
    """The stored migration. Raises PreflightError when `migrate init` has not run."""
    found = find(connection, name)
    if found is None:
        raise PreflightError(f"migration '{name}' is not there yet", hint="run `migrate init` first")
    return found


def ask_drain(connection: sa.Connection, name: str) -> None:
    """Ask the consumer to merge now rather than at its interval."""
    connection.execute(sa.update(table).where(table.c.name == name).values(drain_asked=now))


def drain_asked(connection: sa.Connection, name: str) -> datetime | None:
    result: datetime | None = connection.execute(sa.select(table.c.drain_asked).where(table.c.name == name)).scalar()
    return result
