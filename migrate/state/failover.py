"""Changes of a source's server, and which a verification has yet to settle (invariant sources-never-compare)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state import migration as migrations
from migrate.state import position, verification
from migrate.state.database import metadata, now

table = sa.Table(
    "failover",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("incarnation", sa.Integer, primary_key=True),
    sa.Column("from_server", sa.String(400)),
    sa.Column("to_server", sa.String(400)),
    sa.Column("scheme", sa.String(8)),
    sa.Column("doubt", sa.Text),
    sa.Column("verified", sa.BigInteger),
    sa.Column("at", sa.DateTime),
    sa.Column("until_file", sa.String(255)),
    sa.Column("until_pos", sa.BigInteger),
)
GTID, AGAIN, TIME = "gtid", "again", "time"
"""AGAIN: by GTID, and transactions that were published and not acknowledged come once more."""
_OPEN = (table.c.doubt != "", table.c.verified.is_(None))
_REMOVED = 0
"""In `verified`, where no run has this id: the source was removed. The doubt stays to be read."""


@dataclass(frozen=True, slots=True)
class NotedFailover:
    source: str
    incarnation: int  # that began with it
    from_server: str
    to_server: str
    scheme: str  # GTID, AGAIN or TIME
    doubt: str  # why the target may hold what the new server lacks; empty when it cannot
    until_file: str = ""  # where the new server's log ended then
    until_pos: int = 0


def note(connection: sa.Connection, migration: str, failover: NotedFailover) -> None:
    """Store one; the same one again (its position was not saved) takes the place of the first."""
    values = asdict(failover) | {"verified": None, "at": now}
    row = {"migration": migration, **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def every(connection: sa.Connection, migration: str, source: str) -> list[NotedFailover]:
    """Oldest first."""
    rows = connection.execute(
        sa.select(*(table.c[name] for name in NotedFailover.__slots__))
        .where(table.c.migration == migration, table.c.source == source)
        .order_by(table.c.incarnation)
    )
    return [NotedFailover(*row) for row in rows]


def in_doubt(connection: sa.Connection, migration: str) -> dict[str, tuple[NotedFailover, datetime]]:
    """By source: its last failover, and when, that no verification has settled yet."""
    names = NotedFailover.__slots__
    rows = connection.execute(
        sa.select(*(table.c[name] for name in names), table.c.at)
        .where(table.c.migration == migration, *_OPEN)
        .order_by(table.c.incarnation)
    )
    return {row[0]: (NotedFailover(*row[: len(names)]), row[len(names)]) for row in rows}


def settle(connection: sa.Connection, migration: str, run: int, sources: Collection[str]) -> int:
    """A verification of all tables of these sources was clean: what it began after is settled. Returns how many."""
    began = sa.select(verification.table.c.started).where(verification.table.c.id == run).scalar_subquery()
    return connection.execute(
        sa.update(table)
        .where(table.c.migration == migration, table.c.source.in_(list(sources)), *_OPEN, table.c.at <= began)
        .values(verified=run)
    ).rowcount


def settle_removed(connection: sa.Connection, migration: str, source: str) -> None:
    """No table of this source is left to be verified."""
    connection.execute(
        sa.update(table)
        .where(table.c.migration == migration, table.c.source == source, *_OPEN)
        .values(verified=_REMOVED)
    )


def settle_other(connection: sa.Connection, migration: str, run: int, targets: Mapping[str, str]) -> None:
    """As `settle`, for the stream the other way, which reads at the sides that a clean verification compared with.

    targets: the address of each server that this stream writes to: one that is read at another is still in doubt.
    """
    _, *others = migrations.both_ways(connection, migration)
    for other in others:
        read = {name: position.load(connection, other, name) for name in targets}
        same = [name for name, where in read.items() if where and where.address.lower() == targets[name].lower()]
        settle(connection, other, run, same)
