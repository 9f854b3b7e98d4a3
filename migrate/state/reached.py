"""How far each target database has each partition, as the consumer saw it last, and which came back with less.

The other half stands in the databases (`migrate.target.reached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from migrate.model.partition import Partition
from migrate.state import columns, compared, since_verification
from migrate.state.compared import Because
from migrate.state.database import metadata, now, put_all

table = sa.Table(
    "reached",
    metadata,
    *columns.of_partition(),
    sa.Column("target", sa.String(48), primary_key=True),
    sa.Column("database_name", sa.String(64), primary_key=True),
    sa.Column("next_offset", sa.BigInteger),
)
lost = sa.Table(
    "lost_writes",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("migration", sa.String(48)),
    sa.Column("target", sa.String(48)),
    sa.Column("database_name", sa.String(64)),
    sa.Column("what", sa.String(512)),
    sa.Column("from_offset", sa.BigInteger),
    sa.Column("to_offset", sa.BigInteger),
    sa.Column("kept_from", sa.BigInteger),
    sa.Column("consumed", sa.BigInteger),
    sa.Column("found", sa.DateTime),
    since_verification.column(),
)
DatabaseName = tuple[str, str]
"""Target and database."""
BROKER: DatabaseName = ("Kafka", "")
"""In a database's place: of messages that the broker had acknowledged."""
NO_OFFSET = -1
"""Of a table whose copy lost writes."""
SWITCH = "a switch"
"""In a partition's place: of a database that does not have the last switch of applications."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Lost:
    """What a database no longer had of a partition: messages from `start` to before `end`.

    kept: the first of them that the broker still has; those before it are applied nowhere. consumed: up to where all
    databases had the partition by then; 0 where nobody noted it.
    """

    database: DatabaseName
    what: str  # a partition as topic [number], a table, or SWITCH, with versions of the switch for offsets
    start: int
    end: int
    kept: int
    consumed: int = 0
    found: datetime | None = None

    @property
    def of_copy(self) -> bool:
        return self.start == NO_OFFSET

    @property
    def of_switch(self) -> bool:
        return self.what == SWITCH

    @property
    def healed(self) -> bool:
        """Whether all of it is applied again from the broker."""
        return not self.of_copy and not self.of_switch and self.kept <= self.start

    def __str__(self) -> str:
        if self.database == BROKER:
            return f"Kafka lost acknowledged messages of {self.what}, from offset {self.start} or before to {self.end}"
        where = "/".join(self.database)
        if self.of_copy:
            return f"{where} lost a part of the copy of {self.what}"
        if self.of_switch:
            return (
                f"{where} has version {self.start} of the switch, and {self.end} was the last: it lost committed"
                " transactions, or was left out of that switch"
            )
        span = f"{where} lost what it had of {self.what} from offset {self.start} to {self.end}"
        if self.kept >= self.end:
            return f"{span}, and none of it is applied again"
        return span if self.healed else f"{span}, and the broker has it from {self.kept} on"


def note(connection: sa.Connection, ends: Mapping[Partition, Mapping[DatabaseName, int]]) -> None:
    """Databases came to these offsets.

    Never lower: one that lost writes is behind until it has them all again.
    """
    rows = [
        {**partition.row, "target": target, "database_name": name, "next_offset": offset}
        for partition, some in ends.items()
        for (target, name), offset in some.items()
    ]
    later = {"next_offset": "GREATEST(reached.next_offset, {next_offset})"}
    for start in range(0, len(rows), _AT_ONCE):
        put_all(connection, "reached", rows[start : start + _AT_ONCE], later)


def forget(connection: sa.Connection, partition: Partition) -> None:
    """The broker has other messages under these offsets by now."""
    connection.execute(
        sa.delete(table).where(table.c.topic_id == partition.topic_id, table.c.partition_no == partition.number)
    )


def lower(connection: sa.Connection, partition: Partition, database: DatabaseName, offset: int) -> None:
    """What a database lost is given by nobody: it has come to this offset."""
    target, name = database
    named = (table.c.target == target, table.c.database_name == name)
    of = (table.c.topic_id == partition.topic_id, table.c.partition_no == partition.number)
    connection.execute(sa.update(table).where(*of, *named).values(next_offset=offset))


def load(connection: sa.Connection, partition: Partition) -> dict[DatabaseName, int]:
    """How far each database had a partition."""
    wanted = sa.select(table.c.target, table.c.database_name, table.c.next_offset).where(
        table.c.topic_id == partition.topic_id, table.c.partition_no == partition.number
    )
    return {(row[0], row[1]): int(row[2]) for row in connection.execute(wanted)}


def every(connection: sa.Connection, migration: str) -> dict[DatabaseName, dict[Partition, int]]:
    """How far each database had each partition."""
    found: dict[DatabaseName, dict[Partition, int]] = {}
    for row in connection.execute(sa.select(table).where(table.c.migration == migration)).mappings():
        partition = Partition(migration, row["topic_id"], int(row["partition_no"]))
        found.setdefault((row["target"], row["database_name"]), {})[partition] = int(row["next_offset"])
    return found


def note_lost(connection: sa.Connection, migration: str, found: Lost) -> None:
    """A database came back with less. Nothing counts as equal from here on."""
    compared.forget(connection, migration, Because.LESS, "/".join(filter(None, found.database)))
    target, name = found.database
    values = {"target": target, "database_name": name, "what": found.what, "to_offset": found.end}
    same = [lost.c[column] == value for column, value in values.items()]
    again = sa.update(lost).where(lost.c.migration == migration, *same)
    began = since_verification.began(connection)
    more = {
        "from_offset": sa.func.least(lost.c.from_offset, found.start),
        "kept_from": sa.func.greatest(lost.c.kept_from, found.kept),
        "consumed": sa.func.greatest(lost.c.consumed, found.consumed),
        "found": now,
        since_verification.COLUMN: began,
    }
    if connection.execute(again.values(more)).rowcount:
        return
    new = {"from_offset": found.start, "kept_from": found.kept, "consumed": found.consumed}
    new[since_verification.COLUMN] = began
    connection.execute(sa.insert(lost).values({"migration": migration, **values, **new}))


def lost_since(connection: sa.Connection, migration: str, verification: int | None) -> list[Lost]:
    """What was found once a verification had begun; None: ever."""
    where = [lost.c.migration == migration, *since_verification.unsettled(lost, verification)]
    rows = connection.execute(sa.select(lost).where(*where).order_by(lost.c.id)).mappings()
    return [
        Lost(
            (row["target"], row["database_name"]),
            row["what"],
            int(row["from_offset"]),
            int(row["to_offset"]),
            int(row["kept_from"]),
            int(row["consumed"]),
            row["found"],
        )
        for row in rows
    ]
