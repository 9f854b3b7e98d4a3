"""From which message of each partition on changed keys were not compared yet: what a cutover has left to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state import migration as migrations
from migrate.state.database import metadata, put_all

table = sa.Table(
    "compared",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("topic_id", sa.String(36), primary_key=True),
    sa.Column("partition_no", sa.Integer, primary_key=True),
    sa.Column("next_offset", sa.BigInteger),
)

forgotten = sa.Table(
    "forgotten",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("times", sa.BigInteger),
    sa.Column("because", sa.String(512)),
    sa.Column("at", sa.DateTime),
)

_LONGEST = 512
FORGOTTEN = (
    "rows came by another way than the stream, columns changed, a trigger was made, a server was replaced or restarted,"
    " its log left changes out or has a statement instead of rows, the state database was put back, or the stream from"
    " the other side began"
)
"""What makes everything that was found equal count no longer."""


class Because(StrEnum):
    """Each kind of it, as people read it; docs/decisions/0034 has why."""

    BEGAN = "a publisher began to read a source"
    JOINED = "tables joined a stream"
    SERVER = "a server was replaced"
    RESTARTED = "a server was restarted"
    LEFT_OUT = "a server's log leaves changes out"
    LOG = "the log of a standby side is another one"
    STATEMENT = "a statement was logged instead of the rows that it changed"
    ALTERED = "a statement changed columns or a trigger, or put a table in another one's place"
    COPY = "a table is to be copied, or is open for a copy"
    RULES = "tables are new, or are to be placed by other rules"
    LESS = "a server came back with less than it had"
    STATE = "the state database was put back"
    REWOUND = "a publisher was rewound"
    TRIGGER = "a trigger fires for what a stream writes"
    WITHOUT = "applications were switched without a server"
    ROLE = "a target database is new, or came back from before its first switch"


class Forgotten(NamedTuple):
    """That nothing counts as equal, since when (UTC) and why; "" of before the state kept it."""

    at: datetime
    because: str


def load(connection: sa.Connection, migration: str, *, lock: bool = False) -> dict[Partition, int]:
    """Empty while nothing is known to be equal."""
    wanted = sa.select(table.c.topic_id, table.c.partition_no, table.c.next_offset).where(
        table.c.migration == migration
    )
    rows = connection.execute(wanted.with_for_update() if lock else wanted)
    return {Partition(migration, row[0], int(row[1])): int(row[2]) for row in rows}


def note(connection: sa.Connection, migration: str, offsets: Mapping[Partition, int]) -> None:
    """Everything that was changed before these offsets is equal."""
    connection.execute(sa.delete(table).where(table.c.migration == migration))
    rows = [{**partition.row, "next_offset": offset} for partition, offset in offsets.items()]
    put_all(connection, "compared", rows, {"next_offset": "{next_offset}"})


def note_verified(connection: sa.Connection, migration: str, consumed: Mapping[Partition, int]) -> None:
    """All tables were found equal by a run that began when these offsets were consumed."""
    before = load(connection, migration)
    note(connection, migration, {part: max(end, before.get(part, 0)) for part, end in consumed.items()})


def still(connection: sa.Connection, migration: str, known: Mapping[Partition, int]) -> bool:
    """Whether nothing was forgotten since these offsets were noted; nor is until the transaction ends, if so."""
    now = load(connection, migration, lock=True)
    return bool(known) and all(now.get(partition, -1) >= offset for partition, offset in known.items())


def advance(
    connection: sa.Connection, migration: str, known: Mapping[Partition, int], offsets: Mapping[Partition, int]
) -> bool:
    """What changed since the known offsets is equal, up to these; False, and nothing noted, where it was forgotten."""
    if not still(connection, migration, known):
        return False
    note_verified(connection, migration, offsets)
    return True


def forget(connection: sa.Connection, migration: str, why: Because, what: str = "") -> None:
    """Nothing is known to be equal any more (`FORGOTTEN`), nor will be by a verification that has begun: of a migration
    or its reverse stream, and of the other one of the two. what: which table, source or server it is about."""
    names = sorted(migrations.both_ways(connection, migration))
    because = f"{why}: {what}" if what else why.value
    rows = [{"migration": name, "times": 1, "because": because[:_LONGEST]} for name in names]
    later = {"at": "CURRENT_TIMESTAMP(6)", "because": "{because}", "times": "forgotten.times + 1"}
    put_all(connection, "forgotten", rows, later)
    connection.execute(sa.delete(table).where(table.c.migration.in_(names)))


def why_nothing(connection: sa.Connection, migration: str) -> Forgotten | None:
    """None while anything counts as equal, and where nothing ever did nor was forgotten."""
    if load(connection, migration):
        return None
    wanted = sa.select(forgotten.c.at, forgotten.c.because)
    row = connection.execute(wanted.where(forgotten.c.migration == migration, forgotten.c.times > 0)).one_or_none()
    return None if row is None else Forgotten(row.at, str(row.because))


def times_forgotten(connection: sa.Connection, migration: str, *, lock: bool = False) -> int:
    """How often that was. lock: nor is it once more until the transaction ends."""
    if lock:
        put_all(connection, "forgotten", [{"migration": migration, "times": 0}], {"times": "forgotten.times"})
    wanted = sa.select(forgotten.c.times).where(forgotten.c.migration == migration)
    return int(connection.execute(wanted).scalar() or 0)
