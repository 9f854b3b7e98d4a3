"""The switch that applications read, and the applications that say by which version of it they go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata, now


class Side(StrEnum):
    SOURCE = "source"
    TARGET = "target"

    @property
    def other(self) -> Side:
        return Side.TARGET if self is Side.SOURCE else Side.SOURCE


class Writes(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


table = sa.Table(
    "application_switch",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("version", sa.BigInteger),
    sa.Column("side", sa.String(8)),
    sa.Column("writes", sa.String(8)),
    sa.Column("changed", sa.DateTime),
    sa.Column("frozen", sa.BigInteger),
)
applications = sa.Table(
    "application",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("instance", sa.String(128), primary_key=True),
    sa.Column("version", sa.BigInteger),
    sa.Column("seen", sa.DateTime),
)


@dataclass(frozen=True, slots=True)
class Switch:
    """Where applications read and write. Default: at the source, as ever."""

    version: int
    side: Side
    writes: Writes
    changed: datetime | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """One process of an application, and the version of the switch that it goes by."""

    instance: str
    version: int
    seen: datetime


def make(connection: sa.Connection, migration: str) -> None:
    """The row, if it is not there: at the source."""
    row = {"migration": migration, "version": 1, "side": Side.SOURCE.value, "writes": Writes.OPEN.value}
    connection.execute(insert(table).values(row).on_duplicate_key_update(version=table.c.version))


def get(connection: sa.Connection, migration: str, *, lock: bool = False) -> Switch:
    wanted = sa.select(table.c.version, table.c.side, table.c.writes, table.c.changed).where(
        table.c.migration == migration
    )
    row = connection.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    return Switch(int(row[0]), Side(row[1]), Writes(row[2]), row[3]) if row else Switch(0, Side.SOURCE, Writes.OPEN)


def put(connection: sa.Connection, migration: str, side: Side, writes: Writes) -> Switch:
    """Change it, unless it is so already; its version rises."""
    make(connection, migration)
    before = get(connection, migration, lock=True)
    if (before.side, before.writes) != (side, writes):
        values = {"version": table.c.version + 1, "side": side.value, "writes": writes.value, "changed": now}
        connection.execute(sa.update(table).where(table.c.migration == migration).values(values))
    return get(connection, migration)


def note_frozen(connection: sa.Connection, migration: str, version: int) -> None:
    """Every database of both sides was frozen with this version of the switch: none that kept its commits has less.
    It never falls."""
    highest = sa.func.greatest(table.c.frozen, version)
    connection.execute(sa.update(table).where(table.c.migration == migration).values(frozen=highest))


def frozen(connection: sa.Connection, migration: str) -> int:
    """The version that `note_frozen` had last; 0 before the first."""
    return int(connection.scalar(sa.select(table.c.frozen).where(table.c.migration == migration)) or 0)


def every_application(connection: sa.Connection, migration: str, *, lock: bool = False) -> list[Application]:
    """lock: none of them changes until the transaction ends."""
    asked = (
        sa.select(applications.c.instance, applications.c.version, applications.c.seen)
        .where(applications.c.migration == migration)
        .order_by(applications.c.instance)
    )
    rows = connection.execute(asked.with_for_update() if lock else asked)
    return [Application(row[0], int(row[1]), row[2]) for row in rows]


def acknowledge(connection: sa.Connection, migration: str, instance: str, version: int) -> datetime:
    """An application's process goes by a version of the switch now. Returns when its row says that it was written."""
    row = {"migration": migration, "instance": instance, "version": version}
    connection.execute(insert(applications).values(row).on_duplicate_key_update(version=version, seen=now))
    seen: datetime = connection.execute(sa.select(applications.c.seen).where(*_of(migration, instance))).scalar_one()
    return seen


def forget_application(connection: sa.Connection, migration: str, instance: str, seen: datetime | None = None) -> bool:
    """An application's process that is gone for good; whether it was known. seen: only the row that was written then
    (UTC), as another process may have its name by now."""
    written = [] if seen is None else [applications.c.seen == seen]
    found = connection.execute(sa.delete(applications).where(*_of(migration, instance), *written))
    return bool(found.rowcount)


def knows(connection: sa.Connection, migration: str, instance: str) -> bool:
    """Whether an application's process has a row."""
    return bool(connection.scalar(sa.select(sa.func.count()).where(*_of(migration, instance))))


def _of(migration: str, instance: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (applications.c.migration == migration, applications.c.instance == instance)
