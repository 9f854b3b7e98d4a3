"""What the topics hold of a source beyond its stored position, from runs of its publisher before the present one.

The end of a partition has what the last run sent. A run that began before the end of an earlier one hides what that
one had sent further on, and a server that takes the source's place must have that too.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from migrate.state.position import table


@dataclass(frozen=True, slots=True)
class Noted:
    """gtids: of transactions, as the source writes them. newest: the time of the newest, seconds since 1970; 0 when
    none has one. is_all: no run has sent anything beyond the position since this was noted."""

    gtids: str = ""
    newest: int = 0
    is_all: bool = False


def load(connection: sa.Connection, migration: str, source: str) -> Noted:
    """Nothing of a source without a position."""
    wanted = sa.select(table.c.beyond_gtids, table.c.beyond_newest, table.c.beyond_is_all)
    row = connection.execute(wanted.where(*_of(migration, source))).one_or_none()
    return Noted() if row is None else Noted(row[0] or "", row[1] or 0, bool(row[2]))


def put(connection: sa.Connection, migration: str, source: str, noted: Noted) -> None:
    """Of a source that has a position."""
    values = {"beyond_gtids": noted.gtids, "beyond_newest": noted.newest, "beyond_is_all": noted.is_all}
    connection.execute(sa.update(table).where(*_of(migration, source)).values(values))


def _of(migration: str, source: str) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.migration == migration, table.c.source == source
