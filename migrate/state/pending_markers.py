"""Markers of rows that a foreign key changed, on their way into every partition of their table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.message import Message, encode
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.state.columns import how_many, is_table, of_table, table_row
from migrate.state.database import metadata, now, put_all
from migrate.state.notes import Notes

table = sa.Table(
    "waiting_marker",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    *of_table(key=False),
    sa.Column("digest", sa.LargeBinary(32)),
    sa.Column("incarnation", sa.Integer),
    sa.Column("file_no", sa.BigInteger),
    sa.Column("tx", sa.BigInteger),
    sa.Column("copied", sa.SmallInteger),
    sa.Column("message", sa.Text),
    sa.Column("sent", sa.DateTime),
)
_FOLLOWS_NONE = (0, 0, 0)
"""Stored where a marker follows no change."""
_BYTES = 500_000
"""Of markers in one statement: one alone may be as large as a message."""
_MOST = 100_000
_KEPT = sa.text("INTERVAL 10 MINUTE")
"""For how long one that was sent is remembered: who waits for all of them sees that it was there."""
_LATER = {
    name: f"IF(({{incarnation}}, {{file_no}}, {{tx}}) > (waiting_marker.incarnation, waiting_marker.file_no,"
    f" waiting_marker.tx), {{{name}}}, waiting_marker.{name})"
    for name in ("tx", "file_no", "incarnation")
}
"""The later coordinate, column by column: those that are equal already change nothing for the next."""


class PendingMarker(NamedTuple):
    """after: the coordinate of the change that it follows, None: it follows none; copied: whether it waits until a copy
    is closed."""

    id: int
    table: TableId
    after: Coordinate | None
    copied: bool


GENERATIONS = 16
"""In which rows go by themselves after one change: InnoDB follows no more than 15 (manual, "FOREIGN KEY Constraints").
What goes in a circle ends there."""


@dataclass(slots=True)
class Generations:
    """For who waits until everything is applied: what goes by a foreign key has children, whose markers come later.

    1. `sent`: those that were put until now are in their partitions; 2. up to where the topics end then, everything is
    consumed; 3. `last`: no marker was put meanwhile; else again. What applications change meanwhile puts others: after
    as many rounds as there are generations those of before are done.
    """

    migration: str
    _upto: int | None = None
    _rounds: int = 0

    def sent(self, connection: sa.Connection) -> bool:
        if self._upto is None:
            self._upto = newest(connection, self.migration)
        return not self._left(connection, table.c.id <= self._upto)

    def _left(self, connection: sa.Connection, *which: sa.ColumnElement[bool]) -> bool:
        columns = table.c
        where = [columns.migration == self.migration, columns.sent.is_(None), columns.copied == 0, *which]
        return bool(how_many(connection, table, where))

    @property
    def none_yet(self) -> bool:
        """Whether no marker was ever put, when `sent` was asked."""
        return self._upto == 0

    def last(self, connection: sa.Connection) -> bool:
        now_, before, self._upto = newest(connection, self.migration), self._upto, None
        self._rounds += 1
        return (now_ == before and not self._left(connection)) or self._rounds > GENERATIONS


class PendingMarkers:
    """For a consumer."""

    def __init__(self, notes: Notes, migration: str) -> None:
        self._notes = notes
        self._migration = migration

    def put(self, partition: Partition, markers: Sequence[tuple[TableId, Message]], *, copied: bool) -> None:
        """Keep markers until they may be sent; those that say the same as one that waits are kept already. partition:
        whose messages they come from."""
        if markers:
            self._notes.write([partition], lambda connection: put(connection, self._migration, markers, copied=copied))


def put(connection: sa.Connection, migration: str, markers: Iterable[tuple[TableId, Message]], *, copied: bool) -> None:
    """Keep markers, each until its source's position is behind its coordinate. copied: and the copy is closed."""
    rows: dict[bytes, dict[str, object]] = {}
    for id_, marker in markers:
        plain = replace(marker, id=0, es=0, ts=0, gtid="", incarnation=0, file=0, transaction=0)
        # One that waits for a copy is another: it is put when the same one came, which may not be noted as sent yet.
        digest = hashlib.sha256(b"copied" * copied + encode(replace(plain, rows=(0,) * len(marker.data)))).digest()
        at = marker.coordinate
        rows[digest] = {
            **table_row(migration, id_),
            "digest": digest,
            "incarnation": at.incarnation,
            "file_no": at.file,
            "tx": at.transaction,
            "copied": int(copied),
            "message": encode(marker).decode("utf-8"),
        }
    some: list[dict[str, object]] = []
    size = 0
    for row in rows.values():
        size += len(str(row["message"]))
        if some and size > _BYTES:
            put_all(connection, table.name, some, _LATER)
            some, size = [], len(str(row["message"]))
        some.append(row)
    put_all(connection, table.name, some, _LATER)


def every(connection: sa.Connection, migration: str) -> list[PendingMarker]:
    """Those that were not sent: first those that wait for no copy, oldest first."""
    names = ("id", "source", "table_schema", "table_name", "incarnation", "file_no", "tx", "copied")
    wanted = sa.select(*(table.c[name] for name in names)).where(table.c.migration == migration, table.c.sent.is_(None))
    rows = connection.execute(wanted.order_by(table.c.copied, table.c.id).limit(_MOST))
    return [
        PendingMarker(row.id, (row[1], row[2], row[3]), _after(row.incarnation, row.file_no, row.tx), bool(row.copied))
        for row in rows
    ]


def _after(incarnation: int, file: int, transaction: int) -> Coordinate | None:
    place = (incarnation, file, transaction)
    return None if place == _FOLLOWS_NONE else Coordinate(*place, 0)


def messages(connection: sa.Connection, some: Collection[PendingMarker]) -> dict[int, str]:
    """What they say, by their numbers."""
    found = connection.execute(sa.select(table.c.id, table.c.message).where(table.c.id.in_([one.id for one in some])))
    return {row[0]: row[1] for row in found}


def sent(connection: sa.Connection, migration: str, done: Collection[PendingMarker]) -> None:
    """They are in their partitions, unless the same was put behind a later change meanwhile; what was long ago is
    forgotten."""
    columns = table.c
    free = sa.func.unhex(sa.func.sha2(sa.func.concat(columns.id, "/", sa.func.hex(columns.digest)), 256))
    same = sa.tuple_(columns.id, columns.incarnation, columns.file_no, columns.tx)
    those = [(one.id, *(_FOLLOWS_NONE if one.after is None else one.after[:3])) for one in done]
    connection.execute(sa.update(table).where(same.in_(those)).values(sent=now, digest=free))
    connection.execute(sa.delete(table).where(columns.migration == migration, columns.sent < now - _KEPT))


def newest(connection: sa.Connection, migration: str) -> int:
    """The number of the marker that was put last."""
    found = connection.execute(sa.select(sa.func.max(table.c.id)).where(table.c.migration == migration)).scalar()
    return int(found or 0)


def count(connection: sa.Connection, migration: str) -> int:
    """How many wait until a copy is closed."""
    columns = table.c
    return how_many(connection, table, [columns.migration == migration, columns.sent.is_(None), columns.copied == 1])


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """Of a table that is no longer in the migration."""
    connection.execute(sa.delete(table).where(*is_table(table, migration, id_)))
