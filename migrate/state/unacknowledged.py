"""What the topics hold of a source beyond its stored position, from runs of its publisher before the present one.

The end of a partition has what the last run sent. A run that began before the end of an earlier one hides what that
one had sent further on, and a server that takes the source's place must have that too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import sqlalchemy as sa

from migrate.state.position import table

Ends = dict[tuple[str, int], int]
"""One past the last message, by topic and number of the partition."""


@dataclass(frozen=True, slots=True)
class Noted:
    """gtids: of transactions, as the source writes them. newest: the time of the newest, seconds since 1970; 0 when
    none has one. ends: of messages behind these nothing is noted; of a partition that has none, of no message."""

    gtids: str = ""
    newest: int = 0
    ends: Ends = field(default_factory=dict)


def load(connection: sa.Connection, migration: str, source: str) -> Noted:
    """Nothing of a source without a position."""
    wanted = sa.select(table.c.beyond_gtids, table.c.beyond_newest, table.c.beyond_ends)
    row = connection.execute(wanted.where(*_of(migration, source))).one_or_none()
    if row is None:
        return Noted()
    ends = {(topic, number): end for topic, number, end in json.loads(row[2] or "[]")}
    return Noted(row[0] or "", row[1] or 0, ends)


def put(connection: sa.Connection, migration: str, source: str, noted: Noted) -> None:
    """Of a source that has a position."""
    ends = json.dumps([[*part, end] for part, end in noted.ends.items()])
    values = {"beyond_gtids": noted.gtids, "beyond_newest": noted.newest, "beyond_ends": ends}
    connection.execute(sa.update(table).where(*_of(migration, source)).values(values))


def _of(migration: str, source: str) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.migration == migration, table.c.source == source
