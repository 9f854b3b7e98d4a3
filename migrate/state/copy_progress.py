"""How far each table's copy is, at what pace, and how many rows went to each place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.table import TableId
from migrate.state.columns import is_table, of_table, table_row
from migrate.state.database import metadata, now

COPIED = "copied"
"""The pace of a copy that is done."""

table = sa.Table(
    "copy_progress",
    metadata,
    *of_table(key=True),
    sa.Column("rows_read", sa.BigInteger),
    sa.Column("bytes_read", sa.BigInteger),
    sa.Column("rows_estimate", sa.BigInteger),
    sa.Column("rows_per_second", sa.Double),
    sa.Column("pace", sa.String(16)),
    sa.Column("chunks", sa.Integer),
    sa.Column("reason", sa.Text),
    sa.Column("measured", sa.Text),
    sa.Column("updated", sa.DateTime),
)
place = sa.Table(
    "copy_place",
    metadata,
    *of_table(key=True),
    sa.Column("place", sa.String(200), primary_key=True),
    sa.Column("rows_read", sa.BigInteger),
)


@dataclass(frozen=True, slots=True)
class Progress:
    rows_read: int  # over all runs
    bytes_read: int
    rows_estimate: int  # by the source's statistics
    rows_per_second: float  # during the last minute
    pace: str  # full, slowed, held, paused, copied
    chunks: int  # begun together
    reason: str  # why not at full pace
    measured: str  # JSON list of [server, signal, value]

    @property
    def seconds_left(self) -> float | None:
        """None where it cannot be told."""
        if self.pace == COPIED:
            return 0.0
        left = self.rows_estimate - self.rows_read
        return left / self.rows_per_second if left > 0 and self.rows_per_second > 0 else None


NAMES = tuple(Progress.__slots__)


def put(connection: sa.Connection, migration: str, id_: TableId, progress: Progress) -> None:
    values = {**asdict(progress), "updated": now}
    connection.execute(insert(table).values(**table_row(migration, id_), **values).on_duplicate_key_update(values))


def every(connection: sa.Connection, migration: str) -> dict[TableId, tuple[Progress, datetime]]:
    """Each table's progress, and when it was noted, by (source, database, table)."""
    wanted = [table.c[name] for name in ("source", "table_schema", "table_name", "updated", *NAMES)]
    rows = connection.execute(sa.select(*wanted).where(table.c.migration == migration))
    return {(row[0], row[1], row[2]): (Progress(*row[4:]), row[3]) for row in rows}


def add_places(connection: sa.Connection, migration: str, id_: TableId, rows: Mapping[str, int]) -> None:
    """Rows of finished chunks, by place; to be added in the transaction that notes these chunks as done."""
    for name in sorted(rows):
        values = {**table_row(migration, id_), "place": name, "rows_read": rows[name]}
        more = {"rows_read": place.c.rows_read + rows[name]}
        connection.execute(insert(place).values(values).on_duplicate_key_update(more))


def places(connection: sa.Connection, migration: str, id_: TableId) -> dict[str, int]:
    """Rows by place; a place that got none is not there."""
    rows = connection.execute(
        sa.select(place.c.place, place.c.rows_read).where(*is_table(place, migration, id_)).order_by(place.c.place)
    )
    return {row[0]: int(row[1]) for row in rows}


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """The copy begins anew."""
    for one in (table, place):
        connection.execute(sa.delete(one).where(*is_table(one, migration, id_)))


def skew_of(places: Mapping[str, int], group: str) -> float | None:
    """Rows of the fullest place, in times of the mean of all; None while there are none.

    group: the table's. None with one: a table that is a shard itself fills few of the places that its group has.
    """
    total = 0 if group else sum(places.values())
    return round(max(places.values()) * len(places) / total, 3) if total else None
