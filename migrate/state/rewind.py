"""Publishers that were sent back by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from migrate.state.database import metadata
from migrate.state.position import Position

table = sa.Table(
    "rewind",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("incarnation", sa.Integer, primary_key=True),
    sa.Column("asked", sa.Text),
    sa.Column("from_file", sa.String(255)),
    sa.Column("from_pos", sa.BigInteger),
    sa.Column("from_gtid_set", sa.Text),
    sa.Column("to_file", sa.String(255)),
    sa.Column("to_pos", sa.BigInteger),
    sa.Column("to_gtid_set", sa.Text),
)


@dataclass(frozen=True, slots=True)
class Rewind:
    incarnation: int
    asked: str
    from_file: str
    from_pos: int
    to_file: str
    to_pos: int
    from_gtid_set: str = ""


def note(connection: sa.Connection, migration: str, before: Position, after: Position, asked: str) -> None:
    row = {
        "migration": migration,
        "source": after.source,
        "incarnation": after.incarnation,
        "asked": asked,
        "from_file": before.file,
        "from_pos": before.pos,
        "from_gtid_set": before.gtid_set,
        "to_file": after.file,
        "to_pos": after.pos,
        "to_gtid_set": after.gtid_set,
    }
    connection.execute(sa.insert(table).values(row))


def every(connection: sa.Connection, migration: str, source: str) -> list[Rewind]:
    """Oldest first."""
    names = Rewind.__slots__
    rows = connection.execute(
        sa.select(*(table.c[name] for name in names))
        .where(table.c.migration == migration, table.c.source == source)
        .order_by(table.c.incarnation)
    )
    return [Rewind(*row) for row in rows]


def published_up_to(now: Position, gone_back: Sequence[Rewind]) -> Position:
    """How far was published before the last rewinds, if nothing has been since: they may be taken back."""
    for one in reversed(gone_back):
        if (one.incarnation, one.to_file, one.to_pos) != (now.incarnation, now.file, now.pos):
            break
        now = replace(
            now, incarnation=one.incarnation - 1, file=one.from_file, pos=one.from_pos, gtid_set=one.from_gtid_set
        )
    return now
