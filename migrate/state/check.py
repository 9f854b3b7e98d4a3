"""What the scheduled check found: its last run, how far it is beyond the copied chunks, and what differs now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.change import Key, key_json
from migrate.model.chunk import bound_of, bound_text
from migrate.model.table import TableId
from migrate.state import since_verification
from migrate.state.columns import how_many, is_table, of_table, table_row
from migrate.state.database import metadata, now

run = sa.Table(
    "check_run",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("finished", sa.DateTime),
    sa.Column("milliseconds", sa.BigInteger),
    sa.Column("chunks", sa.Integer),
    sa.Column("rows_compared", sa.BigInteger),
    sa.Column("in_motion", sa.BigInteger),
    sa.Column("repaired", sa.BigInteger),
)
rest = sa.Table(
    "check_rest", metadata, *of_table(key=True), sa.Column("low", sa.Text), sa.Column("checked", sa.DateTime)
)
difference = sa.Table(
    "check_difference",
    metadata,
    *of_table(key=True),
    sa.Column("key_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("key_text", sa.Text),
    sa.Column("kind", sa.String(16)),
    sa.Column("detail", sa.Text),
    sa.Column("first_seen", sa.DateTime),
    sa.Column("last_seen", sa.DateTime),
    since_verification.column(),
)


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """What a run of the check did: chunks, rows, and keys. What a chunk's copy did is a `CopyCounts`."""

    chunks: int
    rows: int  # read at the source
    in_motion: int  # keys that kept changing, or that the stream did not come to
    repaired: int  # keys that differed, were refreshed, and agree


@dataclass(frozen=True, slots=True)
class Run:
    """The last run that came to its end."""

    finished: datetime
    seconds: float
    counts: CheckCounts


@dataclass(frozen=True, slots=True)
class Rest:
    """How far the check is beyond a table's copied chunks."""

    low: Key | None = None  # the keys above it come next; None: those above the chunks
    checked: datetime | None = None  # when it last came to the last key


@dataclass(frozen=True, slots=True)
class Open:
    """A key that differs."""

    id: TableId
    key: str  # JSON list of key texts
    kind: str
    detail: str
    first_seen: datetime
    last_seen: datetime


_COUNTS = ("chunks", "rows_compared", "in_motion", "repaired")


def finish(connection: sa.Connection, migration: str, counts: CheckCounts, seconds: float) -> None:
    """Note that a run came to its end."""
    values = {
        "finished": now,
        "milliseconds": round(seconds * 1000),
        **dict(zip(_COUNTS, astuple(counts), strict=True)),
    }
    connection.execute(insert(run).values(migration=migration, **values).on_duplicate_key_update(values))


def latest(connection: sa.Connection, migration: str) -> Run | None:
    wanted = [run.c[name] for name in ("finished", "milliseconds", *_COUNTS)]
    row = connection.execute(sa.select(*wanted).where(run.c.migration == migration)).one_or_none()
    return Run(row[0], row[1] / 1000, CheckCounts(*row[2:])) if row else None


def get_rest(connection: sa.Connection, migration: str, id_: TableId) -> Rest:
    row = connection.execute(sa.select(rest.c.low, rest.c.checked).where(*is_table(rest, migration, id_))).one_or_none()
    return Rest(bound_of(row[0]), row[1]) if row else Rest()


def note_rest(connection: sa.Connection, migration: str, id_: TableId, low: Key | None) -> None:
    """What is above `low` comes next; None: it came to the last key."""
    values: dict[str, object] = {"low": bound_text(low), **({} if low is not None else {"checked": now})}
    connection.execute(insert(rest).values(**table_row(migration, id_), **values).on_duplicate_key_update(values))


def put(connection: sa.Connection, migration: str, id_: TableId, found: Iterable[tuple[Key, str, str]]) -> None:
    """Keys that differ: (key, kind, detail). One that is there keeps the time when it was first seen."""
    began = {since_verification.COLUMN: since_verification.began(connection)}
    for key, kind, detail in found:
        seen = {"kind": kind, "detail": detail, "last_seen": now, **began}
        row = {**table_row(migration, id_), "key_hash": _hash(key), "key_text": key_json(key), **seen}
        connection.execute(insert(difference).values(**row, first_seen=now).on_duplicate_key_update(seen))


def clear(connection: sa.Connection, migration: str, id_: TableId, keys: Sequence[Key]) -> None:
    """These keys agree now."""
    hashes = [_hash(key) for key in keys]
    for start in range(0, len(hashes), 200):
        some = difference.c.key_hash.in_(hashes[start : start + 200])
        connection.execute(sa.delete(difference).where(*is_table(difference, migration, id_), some))


def count(
    connection: sa.Connection, migration: str, id_: TableId | None = None, verification: int | None = None
) -> int:
    """How many keys differ, of the migration or of one table. verification: that did so once this one had begun."""
    mine = [difference.c.migration == migration] if id_ is None else is_table(difference, migration, id_)
    return how_many(connection, difference, [*mine, *since_verification.unsettled(difference, verification)])


def every(connection: sa.Connection, migration: str, limit: int | None = None) -> list[Open]:
    """The keys that differ, those that do so for longest first."""
    names = ("source", "table_schema", "table_name", "key_text", "kind", "detail", "first_seen", "last_seen")
    rows = connection.execute(
        sa.select(*(difference.c[name] for name in names))
        .where(difference.c.migration == migration)
        .order_by(difference.c.first_seen, difference.c.key_hash)
        .limit(limit)
    )
    return [Open((row[0], row[1], row[2]), *row[3:]) for row in rows]


def forget(connection: sa.Connection, migration: str, ids: Iterable[TableId]) -> None:
    """These tables do not belong to the migration any more, or are to be copied anew."""
    for id_ in sorted(ids):
        for one in (rest, difference):
            connection.execute(sa.delete(one).where(*is_table(one, migration, id_)))


def _hash(key: Key) -> bytes:
    return hashlib.sha256(key_json(key).encode()).digest()
